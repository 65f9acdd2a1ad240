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
  called_.notify_one();
  return true;
}

int Pool::take_back(Helped& run) noexcept {
  const std::lock_guard lock(mutex_);
  const auto end = std::remove(waiting_.begin(), waiting_.end(), &run);
  const int count = static_cast<int>(waiting_.end() - end);
  waiting_.erase(end, waiting_.end());
  return count;
}

void Pool::serve() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    called_.wait(lock, [this] { return !waiting_.empty(); });
    Helped* run = waiting_.front();
    waiting_.pop_front();
    --idle_;
    lock.unlock();
    run->help();
    lock.lock();
    ++idle_;
  }
}

}  // namespace softnpu::ascendc
