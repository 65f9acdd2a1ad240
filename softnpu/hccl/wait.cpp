// See wait.h.
#include "softnpu/hccl/wait.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "softnpu/hccl/status.h"

namespace softnpu::hccl {
namespace {

constexpr std::chrono::nanoseconds kTick = std::chrono::milliseconds(100);

std::chrono::nanoseconds tick(Deadline end) {
  if (end == Deadline::max()) return kTick;
  return std::clamp<std::chrono::nanoseconds>(end - Clock::now(), std::chrono::microseconds(50), kTick);
}

}  // namespace

void notify(Signal& signal) noexcept {
  if (signal.sleepers.load(std::memory_order_seq_cst))
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&signal.value), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Patience::fail_aborted() const { fail(HCCL_E_INTERNAL, "the wait was given up"); }
void Patience::give_up() { fail(HCCL_E_INTERNAL, "the wait was given up"); }

void Until::give_up() {
  late_();
  fail(HCCL_E_TIMEOUT, "the time is over");
}

void waiting::relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void waiting::sleep(Signal& signal, uint32_t seen, Deadline end) noexcept {
  const timespec limit{0, static_cast<long>(tick(end).count())};
  signal.sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (signal.value.load(std::memory_order_seq_cst) == seen)
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&signal.value), FUTEX_WAIT, seen, &limit, nullptr, 0);
  signal.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void wait(int descriptor, short events, Patience& patience) {
  for (;;) {
    if (patience.aborted()) patience.fail_aborted();
    const bool hopeless = patience.hopeless();
    pollfd p{descriptor, events, 0};
    const auto time = std::chrono::ceil<std::chrono::milliseconds>(tick(patience.until())).count();
    if (poll(&p, 1, hopeless ? 0 : static_cast<int>(time)) > 0) return;
    if (hopeless) patience.give_up();
  }
}

void pause(std::chrono::milliseconds time, Patience& patience) {
  Signal nobodys;
  wait(nobodys, [] { return false; }, patience, Clock::now() + time);
}

}  // namespace softnpu::hccl
