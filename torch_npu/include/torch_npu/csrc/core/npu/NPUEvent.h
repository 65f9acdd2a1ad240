// Events in the vendor's names. Made at the first record, on the device of that stream; movable, not copyable; not thread-safe.
// Timing needs the flag ACL_EVENT_TIME_LINE: NPUEvent(ACL_EVENT_TIME_LINE). Sharing with other processes is torch.npu.Event's.
#pragma once

#include <acl/acl.h>

#include <optional>
#include <utility>

#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace c10_npu {

struct TORCH_NPU_API NPUEvent {
  NPUEvent() noexcept = default;
  // ACL_EVENT_SYNC (the default) or, with times, ACL_EVENT_TIME_LINE. Others are refused (c10::Error) at the first record.
  explicit NPUEvent(unsigned int flags) noexcept : flags_(flags) {}
  ~NPUEvent();
  NPUEvent(const NPUEvent&) = delete;
  NPUEvent& operator=(const NPUEvent&) = delete;
  NPUEvent(NPUEvent&& other) noexcept { swap(other); }
  NPUEvent& operator=(NPUEvent&& other) noexcept {
    swap(other);
    return *this;
  }

  operator aclrtEvent() const { return event_; }
  aclrtEvent event() const { return event_; }
  bool isCreated() const { return event_ != nullptr; }
  c10::DeviceIndex device_index() const { return device_index_; }
  // Nothing before the first record.
  std::optional<c10::Device> device() const {
    if (!isCreated()) return std::nullopt;
    return c10::Device(c10::DeviceType::PrivateUse1, device_index_);
  }

  // Is what came before the last record done? True where nothing was recorded.
  bool query() const;
  void record() { record(getCurrentNPUStream()); }
  // c10::Error if it was first recorded on another device.
  void record(const NPUStream& stream);
  void recordOnce(const NPUStream& stream) {
    if (!was_recorded_) record(stream);
  }
  // Work put on `stream` later waits for it. Nothing where nothing was recorded.
  void block(const NPUStream& stream) const;
  // Milliseconds from this event to `other`. c10::Error without timing or before both were recorded.
  float elapsed_time(const NPUEvent& other) const;
  // Microseconds of the device's clock when the event was passed; waits for it. c10::Error as above.
  uint64_t recorded_time() const;
  void synchronize() const;
  // As newly made: the event is given back.
  void reset();

 private:
  void swap(NPUEvent& other) noexcept {
    std::swap(flags_, other.flags_);
    std::swap(event_, other.event_);
    std::swap(device_index_, other.device_index_);
    std::swap(was_recorded_, other.was_recorded_);
  }
  void check_timed(const char* what) const;

  unsigned int flags_ = ACL_EVENT_SYNC;
  aclrtEvent event_ = nullptr;
  c10::DeviceIndex device_index_ = -1;
  bool was_recorded_ = false;
};

}  // namespace c10_npu
