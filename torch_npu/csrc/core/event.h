// Events: aclrtEvent with an owner. c10::Event and torch.Event come through the device guard (guard.cpp), which uses the free
// functions; the allocators own theirs by EventOwner and take them from a pool, since making one is a call into CANN.
// What it is not: streams (stream.h).
#pragma once

#include <c10/core/Stream.h>

#include <utility>

#include "csrc/cann/export.h"
#include "csrc/core/device.h"

namespace npu {

aclrtEvent create_event(c10::DeviceIndex device, bool timing);
void destroy_event(aclrtEvent event, c10::DeviceIndex device) noexcept;
void record_event(aclrtEvent event, c10::Stream stream);
void wait_event(aclrtEvent event, c10::Stream stream);  // work put on the stream later waits
bool query_event(aclrtEvent event);                     // everything before its last record is done
void synchronize_event(aclrtEvent event);
double elapsed_ms(aclrtEvent start, aclrtEvent end);
// Microseconds of the device's clock when the event was passed; it must have timing.
NPU_API uint64_t event_timestamp(aclrtEvent event);

// An event of the pool of its device, given back when this dies. Has no timing.
class PooledEvent {
 public:
  explicit PooledEvent(c10::DeviceIndex device);
  ~PooledEvent();
  PooledEvent(PooledEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)), device_(other.device_) {}
  PooledEvent& operator=(PooledEvent&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(device_, other.device_);
    return *this;
  }
  aclrtEvent get() const { return event_; }

 private:
  aclrtEvent event_ = nullptr;
  c10::DeviceIndex device_;
};

}  // namespace npu
