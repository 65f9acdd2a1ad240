#include "softnpu/ascendc/runtime/pool.h"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <thread>

namespace softnpu::ascendc {

Pool& Pool::get() {
  static Pool* const pool = new Pool;  // threads may outlive static destruction
  return *pool;
}

int Pool::processors() noexcept {
  static const int count = [] {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
  }();
  return count;
}

bool Pool::call(Helped& run) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    waiting_.push_back(&run);
    if (waiting_.size() > idle_) {
      try {
        std::thread([this] { serve(); }).detach();
        ++idle_;  // on its way
      } catch (...) {
        waiting_.pop_back();
        throw;
      }
    }
  } catch (const std::exception&) {
    return false;
  }
  calls_.store(waiting_.size(), std::memory_order_release);
  caller_ = sched_getcpu();
  if (waiting_.size() > static_cast<size_t>(looking_)) called_.notify_one();
  return true;
}

int Pool::take_back(Helped& run) noexcept {
  const std::lock_guard lock(mutex_);
  const auto end = std::remove(waiting_.begin(), waiting_.end(), &run);
  const int count = static_cast<int>(waiting_.end() - end);
  waiting_.erase(end, waiting_.end());
  calls_.store(waiting_.size(), std::memory_order_release);
  return count;
}

void Pool::serve() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    // On the processor of who calls it, it would only be in the way: one that sleeps is woken on another.
    if (waiting_.empty() && looking_ < processors() - 1 && caller_ != sched_getcpu()) {
      ++looking_;
      lock.unlock();
      look([this] { return calls_.load(std::memory_order_acquire) != 0; });
      lock.lock();
      --looking_;
    }
    called_.wait(lock, [this] { return !waiting_.empty(); });
    Helped* run = waiting_.front();
    waiting_.pop_front();
    calls_.store(waiting_.size(), std::memory_order_release);
    --idle_;
    lock.unlock();
    run->help();
    lock.lock();
    ++idle_;
  }
}

}  // namespace softnpu::ascendc
