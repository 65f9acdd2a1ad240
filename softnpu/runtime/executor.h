// A thread that runs streams: each stream has one of its own (its worker), and the process has one compute thread. What it is
// not: it decides nothing (schedule.h). A thread starts at the first stream posted to it and sleeps when it has none.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "softnpu/runtime/schedule.h"

namespace softnpu {

class Executor {
 public:
  explicit Executor(Runner as) : as_(as) {}

  // As whom it runs tasks: kWorker or kCompute.
  Runner as() const noexcept { return as_; }

  // Makes this thread responsible for the stream until it has run it empty or passed it on. Throws if no thread can start.
  void post(Stream* stream);

  // Is another stream waiting for this thread?
  bool has_others() const noexcept { return turns_.others(); }
  // Must a stream whose turn began then make way for another? Costs one load while none waits.
  bool turn_is_over(Stream& stream, int64_t began) noexcept;

  static Executor& compute();
  // True on the compute thread.
  static bool on_compute() noexcept;
  // Called by the compute thread when it has had nothing to do for a few milliseconds, once until there is work again.
  static void on_compute_idle(void (*hook)() noexcept) noexcept;
  // Called by any other thread before it queues a task for the compute thread.
  static void before_compute(void (*hook)() noexcept) noexcept;
  // This thread is about to queue one.
  static void make_room_for_compute() noexcept;
  // At exit: join (all idle) or leave the threads behind.
  static void stop_all(bool join) noexcept;

 private:
  void loop() noexcept;
  Stream* next() noexcept;

  const Runner as_;
  std::mutex mutex_;  // guards turns_ and thread_; before the mutex of all executors, which a thread's start takes
  schedule::Turns turns_;
  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint32_t> sleeping_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace softnpu
