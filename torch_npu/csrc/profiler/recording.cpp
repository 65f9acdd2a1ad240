#include "csrc/profiler/recording.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <new>

#include "csrc/core/lifecycle.h"

namespace npu::profiler {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

// The first three are needed. A library that does not know one of the others refuses it, and the recording goes without: the last two are
// CANN's newer one, and ours.
constexpr msptiActivityKind kKinds[] = {
    MSPTI_ACTIVITY_KIND_KERNEL, MSPTI_ACTIVITY_KIND_COMMUNICATION, MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    MSPTI_ACTIVITY_KIND_API,    MSPTI_ACTIVITY_KIND_MEMCPY,        MSPTI_ACTIVITY_KIND_MEMSET,
    MSPTI_ACTIVITY_KIND_MARKER, MSPTI_ACTIVITY_KIND_ACL_API,       SOFTNPU_ACTIVITY_KIND_TENSORS};
constexpr size_t kNeeded = 3;

std::atomic<Recording*> current{nullptr};

}  // namespace

void Recording::request(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = new (std::nothrow) uint8_t[kBufferBytes];
  *size = *buffer ? kBufferBytes : 0;
  *most = 0;
}

void Recording::complete(uint8_t* buffer, size_t, size_t used) {
  std::unique_ptr<uint8_t[]> bytes(buffer);
  Recording* const r = current.load(std::memory_order_acquire);
  if (!r) return;
  try {
    r->buffers_.push_back({std::move(bytes), used});
  } catch (const std::bad_alloc&) {  // none may go through libmspti: this buffer's records are not kept
    r->lost_ = true;
  }
}

std::string Recording::begin() noexcept try {
  if (in_bad_fork()) return "the process was forked from one that uses the NPU";
  const cann::Mspti& m = cann::mspti();
  if (!m.msptiSubscribe || !m.msptiUnsubscribe || !m.msptiActivityRegisterCallbacks || !m.msptiActivityEnable ||
      !m.msptiActivityFlushAll || !m.msptiActivityGetNextRecord || !m.msptiActivityDisable)
    return "this CANN has no libmspti.so, or an old one";
  if (const msptiResult result = m.msptiSubscribe(&subscriber_, nullptr, nullptr); result != MSPTI_SUCCESS) {
    subscriber_ = nullptr;
    if (result == MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) return "another profiler uses libmspti";
    return "msptiSubscribe returned " + std::to_string(result);
  }
  current.store(this, std::memory_order_release);
  msptiResult result = m.msptiActivityRegisterCallbacks(request, complete);
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds && result == MSPTI_SUCCESS; ++i) {
    const msptiResult of_kind = m.msptiActivityEnable(kKinds[i]);
    if (i < kNeeded) result = of_kind;
  }
  if (result == MSPTI_SUCCESS) return "";
  end();
  return "libmspti refused with " + std::to_string(result);
} catch (const std::exception& error) {
  return error.what();
}

void Recording::end() noexcept {
  if (!subscriber_) return;
  const cann::Mspti& m = cann::mspti();
  for (const msptiActivityKind kind : kKinds) m.msptiActivityDisable(kind);
  if (m.msptiActivityFlushAll(1) != MSPTI_SUCCESS) lost_ = true;
  m.msptiUnsubscribe(subscriber_);
  subscriber_ = nullptr;
  current.store(nullptr, std::memory_order_release);
}

void push_operator(uint64_t id) noexcept {
  if (auto* push = cann::mspti().msptiActivityPushExternalCorrelationId) push(kOperators, id);
}

void pop_operator() noexcept {
  uint64_t last;
  if (auto* pop = cann::mspti().msptiActivityPopExternalCorrelationId) pop(kOperators, &last);
}

}  // namespace npu::profiler
