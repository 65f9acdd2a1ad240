// How far a stream has come: a count of finished tasks that other threads can wait for.
// Advancing costs one exchange and one load when nobody waits; a waiter is woken once, at its number, not at each step.
#pragma once

#include <atomic>
#include <cstdint>

#include "softnpu/runtime/futex.h"

namespace softnpu {

class Progress {
 public:
  uint64_t done() const noexcept { return done_.load(std::memory_order_acquire); }

  // Only the holder of the stream's token calls this.
  void advance(uint64_t to) noexcept {
    done_.store(to, std::memory_order_seq_cst);
    if (__builtin_expect(to >= wake_at_.load(std::memory_order_seq_cst), 0)) wake();
  }

  // True when `target` tasks are done; false at the deadline.
  bool wait(uint64_t target, int64_t deadline, int spins) noexcept {
    for (int i = 0; i < spins; ++i) {
      if (done() >= target) return true;
      cpu_relax();
    }
    for (;;) {
      uint32_t epoch = epoch_.load(std::memory_order_seq_cst);
      uint64_t at = wake_at_.load(std::memory_order_relaxed);
      while (target < at && !wake_at_.compare_exchange_weak(at, target, std::memory_order_seq_cst)) {
      }
      // Order: our number is in wake_at_ before we look; advance stores done_ before it looks at wake_at_.
      if (done_.load(std::memory_order_seq_cst) >= target) return true;
      if (deadline != kForever && now_ns() >= deadline) return false;
      futex_wait(epoch_, epoch, deadline);
    }
  }

 private:
  // The next waiters set wake_at_ anew after they saw the new epoch, so clearing it first loses nobody.
  void wake() noexcept {
    wake_at_.store(UINT64_MAX, std::memory_order_seq_cst);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(epoch_, INT_MAX);
  }

  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> wake_at_{UINT64_MAX};
  std::atomic<uint32_t> epoch_{0};
};

}  // namespace softnpu
