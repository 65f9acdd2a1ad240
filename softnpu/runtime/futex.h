// Sleep on a 32-bit word until it changes. Not for words shared between processes.
// Who uses it: token, progress, executor, event, hold; the pool of AscendC kernels; many for times alone.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace softnpu {

inline constexpr int64_t kForever = INT64_MAX;

// Monotonic nanoseconds; every deadline in the runtime is one of these.
inline int64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

// A deadline `ms` from now; negative means never (CANN's -1).
inline int64_t deadline_after_ms(int64_t ms) noexcept { return ms < 0 ? kForever : now_ns() + ms * 1000000; }

// The same in nanoseconds, where 0 means never.
inline int64_t deadline_after_ns(int64_t ns) noexcept {
  const int64_t now = now_ns();
  return ns == 0 || ns > kForever - now ? kForever : now + ns;
}

// Returns when the word differs from `expected`, at a wake, at the deadline, or spuriously: callers loop.
inline void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, int64_t deadline) noexcept {
  timespec until{deadline / 1000000000, deadline % 1000000000};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_BITSET_PRIVATE, expected,
          deadline == kForever ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

inline void futex_wake(std::atomic<uint32_t>& word, int count) noexcept {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace softnpu
