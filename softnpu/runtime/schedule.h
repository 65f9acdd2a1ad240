// Scheduling: which thread may run a task, which stream a thread serves next, and for how long. The whole policy is this file
// and schedule.cpp; streams and executors only carry it out.
//
// Threads. Each stream has a worker; the process has one compute thread for tasks that use ATen's thread pool (two callers of
// libgomp double the time), whatever the device; and any thread that waits for a stream may help. Whoever runs a stream's
// tasks holds its token, so all of this decides the thread and the time, never the order within a stream.
//
//   cost        waits with a deadline | waits without one | worker | compute thread
//   tiny                yes           |        yes        |  yes   |      yes
//   serial              yes           |        yes        |  yes   |  if no other stream wants the thread
//   wide                              |                   |        |      yes
//   blocking                          |        yes        |  yes   |
//   host                              |                   |  yes   |
//   wait for a stream         once it is over: yes        |  yes   |  once it is over
//   to be skipped               yes, whatever its cost: it is only dropped
//
// The compute thread never blocks: neither in a task nor, beyond kTokenNs, for a stream that a caller runs meanwhile. It serves
// streams in turns of kTurnNs (a kernel is never interrupted). Devices take turns, as if each had a
// thread of its own. Among the streams of one device a level of priority is worth kLevelNs of waiting: streams of one
// priority alternate, a higher one goes first, at once after the kernel that runs, and a lower one is never shut out. The
// priority counts when a turn is given, so changing it moves streams that wait already.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/futex.h"
#include "softnpu/runtime/limits.h"

namespace softnpu {

class Stream;

// Who would run a task.
enum class Runner : uint8_t {
  kCaller,  // waits with a deadline, or for room in the ring
  kWaiter,  // has nothing else to do until the task is done, so it may block in it
  kWorker,
  kCompute,
};

namespace schedule {

// A turn on the compute thread, and what a level of priority is worth there.
inline constexpr int64_t kTurnNs = 2'000'000, kLevelNs = 10'000'000;
// A stream that ran a wide task this many tasks ago keeps to the compute thread: no handing over between two threads.
inline constexpr uint64_t kWideMemory = 256;
// A thread that waits for a stream looks this often whether the next task has become one that it may run.
inline constexpr int64_t kLookNs = 50'000'000;
// The compute thread waits this long for a stream that a caller runs, who may be blocked in a task; then the stream's own worker
// waits for it.
inline constexpr int64_t kTokenNs = 200'000;
// A task that is blocked looks this often whether its stream was aborted.
inline constexpr int64_t kAbortNs = 20'000'000;
// How many pauses (~40 ns each) a waiting thread spins before it sleeps: none on a machine with one processor.
extern const int kSpins;

// `others`: another stream wants the thread. `over`: the wait has nothing to wait for any more.
constexpr bool may_run(Runner runner, Cost cost, bool others, bool over) noexcept {
  switch (cost) {
    case Cost::kTiny:
      return true;
    case Cost::kSerial:
      return runner != Runner::kCompute || !others;
    case Cost::kWide:
      return runner == Runner::kCompute;
    case Cost::kBlocking:
      return runner == Runner::kWorker || runner == Runner::kWaiter;
    case Cost::kWait:
      return over || runner == Runner::kWorker;
    case Cost::kHost:
    case Cost::kAgain:  // never queued
      break;
  }
  return runner == Runner::kWorker;
}

// Does a stream whose next task has this cost belong to the compute thread, or to its worker? `busy`: the compute thread has
// others waiting. `since_wide`: tasks since the stream's last wide one.
constexpr bool on_compute(Cost cost, uint64_t since_wide, bool busy) noexcept {
  if (cost == Cost::kWide) return true;
  return (cost == Cost::kTiny || cost == Cost::kSerial) && since_wide < kWideMemory && !busy;
}

// How long (in pauses) an executor looks for more work of a stream that it has emptied. It adapts: doubled when more came,
// halved when none did, so that idle streams cost nothing on a small machine.
class Lookout {
 public:
  uint32_t pauses() const noexcept { return kSpins ? pauses_ : 0; }
  void rewarded() noexcept { pauses_ = pauses_ < kMost ? pauses_ * 2 : kMost; }
  void disappointed() noexcept { pauses_ = pauses_ > kLeast ? pauses_ / 2 : kLeast; }

 private:
  static constexpr uint32_t kLeast = 16, kMost = 512;
  uint32_t pauses_ = kLeast;
};

// The streams that want one thread. Not thread-safe, but for `others`: its executor locks.
class Turns {
 public:
  // A stream wants the thread, for the first time or again. Throws bad_alloc.
  void add(Stream* stream, int64_t now);
  void remove(Stream* stream) noexcept;
  // Whose turn it is; null when nobody wants one.
  Stream* next() noexcept;
  // Should the stream whose turn began then make way, now that it stands between two tasks?
  bool over(Stream& stream, int64_t began, int64_t now) const noexcept;

  bool others() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

 private:
  struct Waiting {
    Stream* stream;
    int64_t since;
  };

  std::vector<Waiting> waiting_;
  std::atomic<uint32_t> count_{0};
  uint64_t turns_ = 0;
  uint64_t last_turn_[kMaxDevices] = {};
};

}  // namespace schedule
}  // namespace softnpu
