// Threads that blocks run on, beside the stream's own. It grows when blocks wait for blocks that have not begun, and never shrinks.
// A thread with nothing to do looks for the next run for a moment before it sleeps: a wake-up costs as much as a small kernel.
// What it is not: a queue of blocks; a run hands those out itself (run.h). Thread-safe. One a process, never destroyed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "softnpu/runtime/futex.h"

namespace softnpu::ascendc {

class Helped {
 public:
  // Called on a thread of the pool, once for each call to Pool::call that was not taken back.
  virtual void help() noexcept = 0;

 protected:
  ~Helped() = default;
};

class Pool {
 public:
  static Pool& get();

  // How many threads are worth having for work that never waits.
  static int processors() noexcept;

  // A thread will call run.help(). False: none can be made.
  bool call(Helped& run) noexcept;
  // Takes back calls that no thread has begun; how many.
  int take_back(Helped& run) noexcept;

  // Looks whether `over` for some 50 us at most, and not at all on one processor. Called without locks; promises nothing.
  template <class F>
  static void look(F over) noexcept {
    for (int i = processors() > 1 ? kLooks : 0; i > 0 && !over(); --i) softnpu::cpu_relax();
  }

 private:
  static constexpr int kLooks = 1250;  // of ~40 ns

  void serve() noexcept;

  std::mutex mutex_;  // the last lock of all
  std::condition_variable called_;
  std::deque<Helped*> waiting_;
  std::atomic<size_t> calls_ = 0;  // waiting_.size(), for those who look
  int caller_ = -1;                // the processor of the last call
  size_t idle_ = 0;
  // Of the idle, fewer than processors. Each takes a call before it sleeps, so none wakes another for it.
  int looking_ = 0;
};

}  // namespace softnpu::ascendc
