// The right to run a stream's tasks: held by one thread at a time. Callers only try; a stream's worker waits for it, the compute
// thread a moment only, since whoever holds it may be blocked in a collective and other streams need that thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "softnpu/runtime/futex.h"

namespace softnpu {

// 0 free, 1 held, 2 held and an executor sleeps on it. try_take + release cost two atomic exchanges.
class Token {
 public:
  bool try_take() noexcept {
    uint32_t free = 0;
    return word_.load(std::memory_order_relaxed) == 0 &&
           word_.compare_exchange_strong(free, 1, std::memory_order_acquire);
  }

  // False at the deadline. The word may then stay 2, which costs one needless wake-up.
  bool take(int64_t deadline) noexcept {
    for (int i = 0; i < 64; ++i) {
      if (try_take()) return true;
      cpu_relax();
    }
    while (word_.exchange(2, std::memory_order_acquire) != 0) {
      if (deadline != kForever && now_ns() >= deadline) return false;
      futex_wait(word_, 2, deadline);
    }
    return true;
  }

  void release() noexcept {
    if (word_.exchange(0, std::memory_order_seq_cst) == 2) futex_wake(word_, 1);
  }

 private:
  std::atomic<uint32_t> word_{0};
};

}  // namespace softnpu
