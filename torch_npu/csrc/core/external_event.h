// A flag on the device: a stream waits until it is set, also if nobody has asked to set it yet, another stream's work sets it, and a
// reset clears it. All three are work of a stream, and of a graph that captures it: each replay waits anew. No timing, no query.
// What it is not: a position in a stream (event.h). Who calls it: csrc/python.
#pragma once

#include <c10/core/Stream.h>

#include "csrc/cann/export.h"
#include "csrc/core/device.h"

namespace npu {

class NPU_API ExternalEvent {
 public:
  // On the current device.
  ExternalEvent();
  // Nothing may wait for it any more: the runtime fails a wait for an event that is gone.
  ~ExternalEvent();
  ExternalEvent(const ExternalEvent&) = delete;
  ExternalEvent& operator=(const ExternalEvent&) = delete;

  aclrtEvent raw() const { return event_; }
  c10::DeviceIndex device() const { return device_; }
  void record(c10::Stream stream) const;
  void wait(c10::Stream stream) const;
  void reset(c10::Stream stream) const;

 private:
  aclrtEvent event_ = nullptr;
  c10::DeviceIndex device_;
};

}  // namespace npu
