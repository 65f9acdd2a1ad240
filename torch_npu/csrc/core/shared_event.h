// Events that other processes use: made as one of them, given on as 64 bytes, opened in each that gets these. No timing.
// What it is not: events of one process (event.h), which torch.Event makes. Who calls it: csrc/python.
#pragma once

#include <c10/core/Stream.h>

#include <string>
#include <string_view>

#include "csrc/cann/export.h"
#include "csrc/core/device.h"

namespace npu {

class NPU_API SharedEvent {
 public:
  explicit SharedEvent(c10::DeviceIndex device);
  // Of handle() of another process, or of this one. Throws c10::Error when that process has ended.
  SharedEvent(std::string_view handle, c10::DeviceIndex device);
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  std::string handle() const;
  aclrtEvent raw() const { return event_; }
  void record(c10::Stream stream) const;
  void wait(c10::Stream stream) const;  // work put on the stream later waits
  bool query() const;                   // true also where it was never recorded
  void synchronize() const;

 private:
  aclrtEvent event_ = nullptr;
  c10::DeviceIndex device_;
};

}  // namespace npu
