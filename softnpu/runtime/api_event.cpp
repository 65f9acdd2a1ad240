// Exports: events.
#include "acl/api.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/event.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/shared_event.h"
#include "softnpu/runtime/stream.h"

using namespace softnpu;

namespace {

constexpr uint32_t kKnownFlags = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                                 ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;

void publish(aclrtEvent* event, uint32_t flags, std::shared_ptr<SharedEvent> shared) {
  Event* e = slab<Event>().take();
  e->open(flags, std::move(shared));
  *event = slab<Event>().publish(e);
}

void make(aclrtEvent* event, uint32_t flags) {
  need(event, "event");
  if (flags & ~kKnownFlags) fail(ACL_ERROR_INVALID_PARAM, "event flags %#x are not known", flags);
  if ((flags & ACL_EVENT_EXTERNAL) && flags != ACL_EVENT_EXTERNAL)
    fail(ACL_ERROR_INVALID_PARAM, "event flags %#x: ACL_EVENT_EXTERNAL stands alone", flags);
  if ((flags & ACL_EVENT_IPC) && (flags & ~ACL_EVENT_SYNC) != ACL_EVENT_IPC)
    fail(ACL_ERROR_INVALID_PARAM, "event flags %#x: ACL_EVENT_IPC goes with ACL_EVENT_SYNC only", flags);
  current_context();
  publish(event, flags, flags & ACL_EVENT_IPC ? SharedEvent::make() : nullptr);
}

Event& get(aclrtEvent event) { return slab<Event>().get(event); }

constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

SOFTNPU_EXPORT aclError aclrtCreateEvent(aclrtEvent* event) {
  return guarded(__func__, [&] { make(event, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC); });
}

SOFTNPU_EXPORT aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return guarded(__func__, [&] { make(event, flag); });
}

SOFTNPU_EXPORT aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return guarded(__func__, [&] { make(event, flag); });
}

SOFTNPU_EXPORT aclError aclrtDestroyEvent(aclrtEvent event) {
  return guarded(__func__, [&] {
    Event& e = slab<Event>().remove(event);
    e.open(0);  // forget; the slot's epoch makes a timing task under way write nothing
    slab<Event>().recycle(&e);
  });
}

SOFTNPU_EXPORT aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return guarded(__func__, [&] { get(event).record(stream_of(stream)); });
}

SOFTNPU_EXPORT aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
  return guarded(__func__, [&] {
    if (flag > ACL_EVENT_RECORD_EXTERNAL)
      fail(ACL_ERROR_INVALID_PARAM, "flag is ACL_EVENT_RECORD_DEFAULT or ACL_EVENT_RECORD_EXTERNAL, not %u", flag);
    Event& e = get(event);
    flag == ACL_EVENT_RECORD_EXTERNAL ? e.record_external(stream_of(stream)) : e.record(stream_of(stream));
  });
}

SOFTNPU_EXPORT aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return guarded(__func__, [&] {
    Event& e = get(event);
    e.reset(stream_of(stream));
  });
}

SOFTNPU_EXPORT aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return guarded(__func__, [&] {
    Event& e = get(event);
    e.wait_on(stream_of(stream));
  });
}

// Here and in the next one the time is in seconds, 0 for ever.
SOFTNPU_EXPORT aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout,
                                                     uint32_t flag) {
  return guarded(__func__, [&, name = __func__] {
    if (flag > ACL_EVENT_WAIT_EXTERNAL)
      fail(ACL_ERROR_INVALID_PARAM, "flag is ACL_EVENT_WAIT_DEFAULT or ACL_EVENT_WAIT_EXTERNAL, not %u", flag);
    if (flag == ACL_EVENT_WAIT_EXTERNAL && timeout)
      fail(ACL_ERROR_INVALID_PARAM, "timeout %u: a wait with ACL_EVENT_WAIT_EXTERNAL has none, give 0", timeout);
    Event& e = get(event);
    if (flag == ACL_EVENT_WAIT_EXTERNAL) return e.wait_external(stream_of(stream));
    e.wait_on(stream_of(stream), timeout * kSecond, name);
  });
}

SOFTNPU_EXPORT aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout) {
  return guarded(__func__, [&, name = __func__] {
    if (timeout < 0) fail(ACL_ERROR_INVALID_PARAM, "timeout %d: give seconds, or 0 for ever", timeout);
    Event& e = get(event);
    e.wait_on(stream_of(stream), timeout * kSecond, name);
  });
}

SOFTNPU_EXPORT aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  return guarded(__func__, [&] {
    need(status, "status");
    *status = get(event).done() ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  });
}

// CANN's words: not ready also means "not recorded".
SOFTNPU_EXPORT aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return guarded(__func__, [&] {
    need(status, "status");
    Event& e = get(event);
    *status = e.recorded() && e.done() ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  });
}

SOFTNPU_EXPORT aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  return guarded(__func__, [&] {
    need(status, "status");
    *status = get(event).waits_done() ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  });
}

SOFTNPU_EXPORT aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return guarded(__func__, [&] { get(event).synchronize(kForever); });
}

SOFTNPU_EXPORT aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  return guarded(__func__, [&] { get(event).synchronize(deadline_of(timeout)); });
}

SOFTNPU_EXPORT aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return guarded(__func__, [&] {
    need(ms, "ms");
    int64_t start = get(startEvent).timestamp_ns(), end = get(endEvent).timestamp_ns();
    *ms = float(double(end - start) / 1e6);
  });
}

SOFTNPU_EXPORT aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  return guarded(__func__, [&] {
    need(timestamp, "timestamp");
    *timestamp = uint64_t(get(event).timestamp_ns() / 1000);  // microseconds
  });
}

SOFTNPU_EXPORT aclError aclrtGetEventId(aclrtEvent event, uint32_t* eventId) {
  return guarded(__func__, [&] {
    need(eventId, "eventId");
    *eventId = slab<Event>().index_of(&get(event));
  });
}

SOFTNPU_EXPORT aclError aclrtGetEventAvailNum(uint32_t* eventCount) {
  return guarded(__func__, [&] {
    need(eventCount, "eventCount");
    *eventCount = uint32_t(Event::kMaxCount - slab<Event>().live_count());
  });
}

SOFTNPU_EXPORT aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle* handle) {
  return guarded(__func__, [&] {
    need(handle, "handle");
    Event& e = get(event);
    if (!e.shared()) fail(ACL_ERROR_INVALID_PARAM, "the event was made without ACL_EVENT_IPC: it is of one process");
    *handle = e.shared()->handle();
  });
}

SOFTNPU_EXPORT aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent* event) {
  return guarded(__func__, [&] {
    need(event, "event");
    current_context();
    publish(event, ACL_EVENT_IPC, SharedEvent::open(handle));
  });
}
