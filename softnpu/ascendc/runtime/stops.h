// What is told of aclrtDeviceTaskAbort, so that a run whose blocks wait for a word that nobody writes ends. What it is not: how a
// stream's tasks are dropped, which is libascendcl's. Thread-safe; one a process.
#pragma once

#include <cstdint>

namespace softnpu::ascendc {

class Stops {
 public:
  struct Seen {
    int device;
    uint64_t count;
  };
  // Before the first run; an aclError.
  static uint32_t listen() noexcept;
  // Kept by a run when it begins; a device that there is not is never stopped.
  static Seen seen(int device) noexcept;
  // Have the device's tasks been aborted since, or are they being?
  static bool since(Seen seen) noexcept;
};

}  // namespace softnpu::ascendc
