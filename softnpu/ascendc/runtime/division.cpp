#include "softnpu/ascendc/runtime/division.h"

#if defined(__x86_64__)
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace softnpu::ascendc {
namespace {

// Read by the signal's handler, on the thread that set them.
thread_local std::atomic<bool> t_within{false}, t_by_zero{false}, t_passed_on{false};
struct sigaction before{};

// The registers as instructions number them.
constexpr int kRegisters[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

// div or idiv as the processor met it.
struct Instruction {
  unsigned length = 0;  // 0: it is none
  unsigned bytes = 4;   // of the divisor
  bool is_signed = false;
  uint64_t divisor = 0;  // of more than one byte
};

Instruction decode(const greg_t* registers) {
  const auto of = [&](unsigned number) { return static_cast<uint64_t>(registers[kRegisters[number]]); };
  const auto* const code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  Instruction found;
  const uint8_t* p = code;
  uint64_t segment = 0;
  for (; *p == 0x66 || *p == 0x2e || *p == 0x3e || *p == 0x64 || *p == 0xf2 || *p == 0xf3; ++p) {
    if (*p == 0x66) found.bytes = 2;
    if (*p == 0x64) asm("mov %%fs:0, %0" : "=r"(segment));  // the thread's own variables: their base lies there
  }
  const unsigned rex = (*p & 0xf0) == 0x40 ? *p++ : 0;
  if (rex & 8) found.bytes = 8;
  if (*p != 0xf6 && *p != 0xf7) return {};
  if (*p++ == 0xf6) found.bytes = 1;
  const unsigned mode = *p >> 6, what = *p >> 3 & 7, place = *p & 7;
  ++p;
  if (what != 6 && what != 7) return {};
  found.is_signed = what == 7;
  if (mode == 3) {
    found.length = static_cast<unsigned>(p - code);
    found.divisor = of(place | (rex & 1) << 3);
    return found;
  }
  unsigned base = place;
  uint64_t address = segment;
  if (place == 4) {  // an index
    const unsigned index = (*p >> 3 & 7) | (rex & 2) << 2;
    if (index != 4) address = of(index) << (*p >> 6);
    base = *p++ & 7;
  }
  const bool far =
      mode == 0 && base == 5;  // a number in place of the base: behind the instruction, if there is no index
  if (!far) address += of(base | (rex & 1) << 3);
  if (mode == 1) {
    address += static_cast<uint64_t>(int64_t{static_cast<int8_t>(*p)});
    p += 1;
  } else if (mode == 2 || far) {
    int32_t distance;
    std::memcpy(&distance, p, 4);
    p += 4;
    address += static_cast<uint64_t>(int64_t{distance}) + (far && place == 5 ? reinterpret_cast<uintptr_t>(p) : 0);
  }
  found.length = static_cast<unsigned>(p - code);
  std::memcpy(&found.divisor, reinterpret_cast<const void*>(address), found.bytes);
  return found;
}

// What the division leaves in its registers. False where it is none.
bool divide(greg_t* registers) {
  const auto i = decode(registers);
  if (i.length == 0) return false;
  auto& rax = reinterpret_cast<uint64_t&>(registers[REG_RAX]);
  auto& rdx = reinterpret_cast<uint64_t&>(registers[REG_RDX]);
  const uint64_t mask = i.bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * i.bytes)) - 1;
  const uint64_t dividend = rax & mask;
  // Of one byte a register's number means another place; numbers that C++ divides with a sign have more.
  const bool overflows = i.is_signed && i.bytes > 1 && (i.divisor & mask) == mask;
  const uint64_t quotient = overflows ? dividend : 0, remainder = overflows ? 0 : dividend;
  if (!overflows) t_by_zero.store(true, std::memory_order_relaxed);
  if (i.bytes == 1) {
    rax = (rax & ~uint64_t{0xffff}) | remainder << 8 | quotient;
  } else {
    const uint64_t kept = i.bytes == 2 ? ~mask : 0;  // of 4 bytes the upper half becomes 0
    rax = (rax & kept) | quotient;
    rdx = (rdx & kept) | remainder;
  }
  registers[REG_RIP] += i.length;
  return true;
}

void handle(int number, siginfo_t* info, void* context) {
  auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (info->si_code == FPE_INTDIV && t_within.load(std::memory_order_relaxed) && divide(registers)) return;
  // The program's own: what it had before, once. A handler that raises the signal again finds the default action.
  struct sigaction next = before;
  if (t_passed_on.exchange(true, std::memory_order_relaxed)) next.sa_handler = SIG_DFL, next.sa_flags = 0;
  if (next.sa_flags & SA_SIGINFO) {
    next.sa_sigaction(number, info, context);
  } else if (next.sa_handler == SIG_DFL || (next.sa_handler == SIG_IGN && info->si_code > 0)) {
    next.sa_handler = SIG_DFL;
    sigaction(SIGFPE, &next, nullptr);  // and the instruction meets it
    if (info->si_code <= 0) raise(SIGFPE);
  } else if (next.sa_handler != SIG_IGN) {
    next.sa_handler(number);
  }
  t_passed_on.store(false, std::memory_order_relaxed);
}

// The threads of the software NPU block all signals, and a blocked one would end the process.
void unblock() {
  thread_local bool unblocked = false;
  if (unblocked) return;
  unblocked = true;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGFPE);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace

Divisions::Divisions() noexcept : within_(t_within.exchange(true, std::memory_order_relaxed)) {
  if (!within_) t_by_zero.store(false, std::memory_order_relaxed);
  unblock();
}
void Divisions::listen() noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  struct sigaction now{};
  if (sigaction(SIGFPE, nullptr, &now) != 0 || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle)) return;
  struct sigaction action{};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;  // a handler that raises it again is met at once
  before = now;
  sigaction(SIGFPE, &action, nullptr);
}
Divisions::~Divisions() { t_within.store(within_, std::memory_order_relaxed); }
bool Divisions::by_zero() const noexcept { return t_by_zero.load(std::memory_order_relaxed); }

}  // namespace softnpu::ascendc
#else
namespace softnpu::ascendc {
Divisions::Divisions() noexcept : within_(false) {}
Divisions::~Divisions() = default;
bool Divisions::by_zero() const noexcept { return false; }
void Divisions::listen() noexcept {}
}  // namespace softnpu::ascendc
#endif
