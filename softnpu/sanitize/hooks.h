// The table of observers: who wants to see, delay or fail what the software NPU does, at the points where threads meet.
// Nobody by default, and then a point costs one relaxed load. Who calls `at`: softnpu/runtime, at every point below. Who adds
// observers: chaos.cpp. What it is not: it knows no stream and no device, only what it is told.
#pragma once

#include <cstdint>

#include "softnpu/sanitize/watched.h"

namespace softnpu::sanitize {

enum class Point : uint8_t {
  kSubmit,   // a task has come; it is still its caller's
  kQueued,   // it lies in the ring, and nobody has been made responsible yet
  kBegin,    // it is about to run, on this thread; a status returned here is the task's, and it does not run
  kEnd,      // it has run, or was stopped at kBegin, and is not dropped yet
  kPost,     // a stream is about to be given to an executor
  kTurn,     // an executor has taken a stream
  kEmptied,  // an executor has found a stream empty and is about to let go of it
  kWait,     // a thread is about to wait for a stream
  kRecord,   // an event is about to take a stream's position
  kReport,   // a stream's error is about to be reported
};
inline constexpr int kPoints = 10;

struct Moment {
  Point point;
  const void* stream;
  const char* task;  // its name; null at points that concern no task
};

// Called on the thread that came to the point, which may hold the first three locks of the order in
// softnpu/runtime/stream.h: an observer takes none of them, and queues nothing. It may block; a task's observer that blocks must look at
// running_task_aborted (softnpu/runtime/enqueue.h). Returns 0, or at kBegin a status.
using Observer = int (*)(const Moment&) noexcept;

// Observers stay for the life of the process. At most 8; false when there is no room.
bool add_observer(Observer observer) noexcept;

namespace detail {
int tell(const Moment& moment) noexcept;
}  // namespace detail

inline int at(Point point, const void* stream, const char* task = nullptr) noexcept {
  if (!watched(kObservers)) return 0;
  return detail::tell({point, stream, task});
}

}  // namespace softnpu::sanitize
