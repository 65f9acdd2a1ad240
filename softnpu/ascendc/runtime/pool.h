// Threads that blocks run on, beside the stream's own. It grows when blocks wait for blocks that have not begun, and never shrinks.
// What it is not: a queue of blocks; a run hands those out itself (run.h). Thread-safe. One a process, never destroyed.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

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

 private:
  void serve() noexcept;

  std::mutex mutex_;  // the last lock of all
  std::condition_variable called_;
  std::deque<Helped*> waiting_;
  size_t idle_ = 0;
};

}  // namespace softnpu::ascendc
