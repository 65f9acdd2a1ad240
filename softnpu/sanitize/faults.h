// Faults on demand: which call of which function of CANN is to fail, and how (ANYCEND_FAULT), so that the errors of a program can be
// tried. Who asks: softnpu/runtime at each exported call and each task; nnopbase, ops and hccl by softnpu/runtime/enqueue.h. What it is not: it
// fails nothing itself, and knows no stream and no task but by its name.
//
//   ANYCEND_FAULT=<function>:<how>[:<which>][,...]      how: error[=status], oom, kernel[=status], hang
//                                                      which: n (the n-th), n+ (each from the n-th on); left out: 1
//   ANYCEND_FAULT=link:cut:<seconds>s[:<n>]             (or <milliseconds>ms) from the n-th call of HCCL on, for that time
//   ANYCEND_FAULT=device[<id>]:lost[:<n>]               from the device's n-th task on, until it is reset; without an id the first that has so many
#pragma once

#include <cstdint>

#include "softnpu/sanitize/watched.h"

namespace softnpu::sanitize {

// Whether ANYCEND_FAULT asks for any: read when the library is loaded. All below is slow, and called only if so. Thread-safe.
inline bool faulty() noexcept { return watched(kFaults); }

// The status that this call is to return instead of doing anything, or 0. `device`: the calling thread's, or -1.
int fault_of_call(const char* function, int device) noexcept;

// While it lives, calls of this thread are none of the program's: a replay makes those of events that its graph holds.
class Uncounted {
 public:
  Uncounted() noexcept;
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
};

// What is to become of a task that is about to be queued on `device`.
struct TaskFault {
  int status = 0;      // that it ends with; 0: nothing
  bool hangs = false;  // not before its stream is aborted
};
TaskFault fault_of_task(const char* name, int device) noexcept;

// Is the network away now? Asked by what is about to send or receive between hosts.
bool link_is_cut() noexcept;

// The error message of the fault that struck this thread last.
const char* fault_message() noexcept;

// Told where a device is lost, and where it is no more: the runtime's registry sets it when the library is loaded.
extern void (*tell_loss)(int device, bool lost) noexcept;

// The device was reset: it is lost no more.
void device_reset(int device) noexcept;

}  // namespace softnpu::sanitize
