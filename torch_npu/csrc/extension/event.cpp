// core/npu/NPUEvent.h on csrc/core's events.
#include "torch_npu/csrc/core/npu/NPUEvent.h"

#include <c10/util/Exception.h>

#include "csrc/core/event.h"

namespace c10_npu {

NPUEvent::~NPUEvent() {
  if (event_) npu::destroy_event(event_, device_index_);
}

void NPUEvent::reset() {
  if (event_) npu::destroy_event(event_, device_index_);
  event_ = nullptr;
  device_index_ = -1;
  was_recorded_ = false;
}

bool NPUEvent::query() const { return !was_recorded_ || npu::query_event(event_); }

void NPUEvent::record(const NPUStream& stream) {
  TORCH_CHECK_NOT_IMPLEMENTED((flags_ & ~static_cast<unsigned>(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE)) == 0,
                              "npu: NPUEvent takes ACL_EVENT_SYNC and ACL_EVENT_TIME_LINE, not the flags ", flags_);
  if (!event_) {
    event_ = npu::create_event(stream.device_index(), flags_ & ACL_EVENT_TIME_LINE);
    device_index_ = stream.device_index();
  }
  TORCH_CHECK(device_index_ == stream.device_index(), "Event device ", static_cast<int>(device_index_),
              " does not match recording stream's device ", static_cast<int>(stream.device_index()), ".");
  npu::record_event(event_, stream.unwrap());
  was_recorded_ = true;
}

void NPUEvent::block(const NPUStream& stream) const {
  if (was_recorded_) npu::wait_event(event_, stream.unwrap());
}

void NPUEvent::check_timed(const char* what) const {
  TORCH_CHECK(flags_ & ACL_EVENT_TIME_LINE, "npu: ", what,
              " needs events with timing: make them with NPUEvent(ACL_EVENT_TIME_LINE)");
  TORCH_CHECK(was_recorded_, "npu: ", what, " needs events that were recorded");
}

float NPUEvent::elapsed_time(const NPUEvent& other) const {
  check_timed("elapsed_time");
  other.check_timed("elapsed_time");
  synchronize();
  other.synchronize();
  return static_cast<float>(npu::elapsed_ms(event_, other.event_));
}

uint64_t NPUEvent::recorded_time() const {
  check_timed("recorded_time");
  synchronize();
  return npu::event_timestamp(event_);
}

void NPUEvent::synchronize() const {
  if (was_recorded_) npu::synchronize_event(event_);
}

}  // namespace c10_npu
