#include "csrc/core/event.h"

#include <c10/util/Exception.h>

#include <array>
#include <mutex>
#include <vector>

#include "csrc/cann/error.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"

namespace npu {

aclrtEvent create_event(c10::DeviceIndex device, bool timing) {
  const NPUGuard guard(device);
  ensure_context();
  const cann::Api& acl = cann::acl();
  const uint32_t flags = timing ? ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE : ACL_EVENT_SYNC;
  aclrtEvent event = nullptr;
  // The Ex kind may be recorded and waited for any number of times without a reset.
  if (acl.aclrtCreateEventExWithFlag) {
    NPU_CHECK(acl.aclrtCreateEventExWithFlag(&event, flags));
  } else {
    NPU_CHECK(acl.aclrtCreateEventWithFlag(&event, flags));
  }
  return event;
}

void destroy_event(aclrtEvent event, c10::DeviceIndex device) noexcept {
  if (!event || !alive()) return;
  try {
    const NPUGuard guard(device);
    ensure_context();
    NPU_WARN(cann::acl().aclrtDestroyEvent(event));
  } catch (const c10::Error& error) {  // a destructor has nobody to tell
    TORCH_WARN_ONCE("npu: an event could not be destroyed: ", error.what_without_backtrace());
  }
}

void record_event(aclrtEvent event, c10::Stream stream) {
  const NPUGuard guard(stream.device_index());
  NPU_CHECK(cann::acl().aclrtRecordEvent(event, raw_stream(stream)));
}

void wait_event(aclrtEvent event, c10::Stream stream) {
  const NPUGuard guard(stream.device_index());
  NPU_CHECK(cann::acl().aclrtStreamWaitEvent(raw_stream(stream), event));
}

bool query_event(aclrtEvent event) {
  initialize();
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  NPU_CHECK(cann::acl().aclrtQueryEventStatus(event, &status));
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

void synchronize_event(aclrtEvent event) {
  initialize();
  NPU_CHECK(cann::acl().aclrtSynchronizeEvent(event));
}

double elapsed_ms(aclrtEvent start, aclrtEvent end) {
  initialize();
  float milliseconds = 0;
  NPU_CHECK(cann::acl().aclrtEventElapsedTime(&milliseconds, start, end));
  return milliseconds;
}

uint64_t event_timestamp(aclrtEvent event) {
  initialize();
  TORCH_CHECK_NOT_IMPLEMENTED(cann::acl().aclrtEventGetTimestamp, "npu: this CANN has no aclrtEventGetTimestamp");
  uint64_t timestamp = 0;
  NPU_CHECK(cann::acl().aclrtEventGetTimestamp(event, &timestamp));
  return timestamp;
}

namespace {

struct Pool {
  std::mutex lock;
  std::vector<aclrtEvent> free;
};

Pool& pool_of(c10::DeviceIndex device) {
  static auto* const all = new std::array<Pool, kMaxDevices>();  // leaked: events come back until the process is gone
  return (*all)[device];
}

}  // namespace

PooledEvent::PooledEvent(c10::DeviceIndex device) : device_(device) {
  Pool& pool = pool_of(device);
  {
    const std::lock_guard<std::mutex> lock(pool.lock);
    if (!pool.free.empty()) {
      event_ = pool.free.back();
      pool.free.pop_back();
    }
  }
  if (!event_) event_ = create_event(device, false);
}

PooledEvent::~PooledEvent() {
  if (!event_ || !alive()) return;
  Pool& pool = pool_of(device_);
  const std::lock_guard<std::mutex> lock(pool.lock);
  pool.free.push_back(event_);
}

}  // namespace npu
