// libmspti's C ABI: argument checks and one call of the journal. One subscriber at a time, as in CANN. Callbacks of calls (the domain
// of msptiSubscribe's function) are not made: no function here switches them on.
#include "mspti/api.h"

#include <cstdio>

#include "softnpu/runtime/error.h"
#include "softnpu/trace/journal.h"

using softnpu::mspti::Enabled;
using softnpu::mspti::Flushed;
using softnpu::mspti::Journal;

namespace {

msptiResult refuse(const char* call, msptiResult result, const char* why) noexcept {
  char text[256];
  snprintf(text, sizeof text, "%s: %s", call, why);
  softnpu::set_error_message(text);
  return result;
}

msptiResult enable(const char* call, msptiActivityKind kind, bool on) noexcept {
  switch (Journal::get().enable(kind, on)) {
    case Enabled::kDone:
      return MSPTI_SUCCESS;
    case Enabled::kUnknown:
      return refuse(call, MSPTI_ERROR_INVALID_PARAMETER, "the software NPU has no records of this kind");
    case Enabled::kTooMany:
      return refuse(call, MSPTI_ERROR_INNER, "too many profilers listen: end another first");
    case Enabled::kNobody:
      break;
  }
  return refuse(call, MSPTI_ERROR_INNER, "nobody has called msptiSubscribe");
}

bool alive(const char* call) noexcept {
  if (softnpu::trace::alive()) return true;
  refuse(call, MSPTI_ERROR_INNER, "the process is a forked child of one that uses the NPU, or it ends");
  return false;
}

}  // namespace

SOFTNPU_EXPORT msptiResult msptiSubscribe(msptiSubscriberHandle* subscriber, msptiCallbackFunc callback,
                                          void* userdata) {
  if (subscriber == nullptr) return refuse(__func__, MSPTI_ERROR_INVALID_PARAMETER, "subscriber is null");
  if (!alive(__func__)) return MSPTI_ERROR_INNER;
  if (!Journal::get().subscribe())
    return refuse(__func__, MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
                  "there is a subscriber already: end the other profiler first");
  *subscriber = reinterpret_cast<msptiSubscriberHandle>(&Journal::get());
  return MSPTI_SUCCESS;
}

SOFTNPU_EXPORT msptiResult msptiUnsubscribe(msptiSubscriberHandle subscriber) {
  if (!alive(__func__)) return MSPTI_ERROR_INNER;
  if (subscriber != reinterpret_cast<msptiSubscriberHandle>(&Journal::get()) || !Journal::get().unsubscribe())
    return refuse(__func__, MSPTI_ERROR_INVALID_PARAMETER, "this is not the subscriber");
  return MSPTI_SUCCESS;
}

SOFTNPU_EXPORT msptiResult msptiActivityRegisterCallbacks(msptiBuffersCallbackRequestFunc funcBufferRequested,
                                                          msptiBuffersCallbackCompleteFunc funcBufferCompleted) {
  if (funcBufferRequested == nullptr || funcBufferCompleted == nullptr)
    return refuse(__func__, MSPTI_ERROR_INVALID_PARAMETER, "a function is null");
  if (!alive(__func__)) return MSPTI_ERROR_INNER;
  Journal::get().set_buffers(funcBufferRequested, funcBufferCompleted);
  return MSPTI_SUCCESS;
}

SOFTNPU_EXPORT msptiResult msptiActivityEnable(msptiActivityKind kind) {
  if (!alive(__func__)) return MSPTI_ERROR_INNER;
  return enable(__func__, kind, true);
}

SOFTNPU_EXPORT msptiResult msptiActivityDisable(msptiActivityKind kind) {
  if (!alive(__func__)) return MSPTI_ERROR_INNER;
  return enable(__func__, kind, false);
}

SOFTNPU_EXPORT bool msptiActivityIsEnabled(msptiActivityKind kind) {
  return alive(__func__) && Journal::get().enabled(kind);
}

SOFTNPU_EXPORT msptiResult msptiActivityFlushAll(uint32_t flag) {
  if (!alive(__func__)) return MSPTI_ERROR_INNER;
  if (!Journal::get().subscribed()) return refuse(__func__, MSPTI_ERROR_INNER, "nobody has called msptiSubscribe");
  switch (Journal::get().flush()) {
    case Flushed::kDone:
      return MSPTI_SUCCESS;
    case Flushed::kNoCallbacks:
      return refuse(__func__, MSPTI_ERROR_INNER,
                    "there is nobody to give the records to: call msptiActivityRegisterCallbacks first");
    case Flushed::kLost:
      break;
  }
  return refuse(__func__, MSPTI_ERROR_INNER,
                "records are lost: there was no buffer with room for one, or no memory to keep them");
}

SOFTNPU_EXPORT msptiResult msptiActivityGetNextRecord(uint8_t* buffer, size_t validBufferSizeBytes,
                                                      msptiActivity** record) {
  if (buffer == nullptr || record == nullptr)
    return refuse(__func__, MSPTI_ERROR_INVALID_PARAMETER, "buffer or record is null");
  uint8_t* next = buffer;
  if (*record) next = reinterpret_cast<uint8_t*>(*record) + softnpu::mspti::size_of((*record)->kind);
  if (next >= buffer + validBufferSizeBytes) return MSPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<msptiActivity*>(next);
  return MSPTI_SUCCESS;
}

SOFTNPU_EXPORT msptiResult msptiActivityPushExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t id) {
  if (kind <= MSPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= MSPTI_EXTERNAL_CORRELATION_KIND_SIZE)
    return refuse(__func__, MSPTI_ERROR_INVALID_PARAMETER, "there is no such kind");
  try {
    softnpu::mspti::outer().ids[kind].push_back(id);
  } catch (...) {
    return refuse(__func__, MSPTI_ERROR_INNER, "the host is out of memory");
  }
  return MSPTI_SUCCESS;
}

SOFTNPU_EXPORT msptiResult msptiActivityPopExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t* lastId) {
  if (kind <= MSPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= MSPTI_EXTERNAL_CORRELATION_KIND_SIZE)
    return refuse(__func__, MSPTI_ERROR_INVALID_PARAMETER, "there is no such kind");
  auto& ids = softnpu::mspti::outer().ids[kind];
  if (ids.empty()) return refuse(__func__, MSPTI_ERROR_QUEUE_EMPTY, "the thread has pushed none of this kind");
  if (lastId) *lastId = ids.back();
  ids.pop_back();
  return MSPTI_SUCCESS;
}
