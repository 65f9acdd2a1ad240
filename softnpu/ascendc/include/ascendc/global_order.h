// Order by way of global memory (ANYCEND_CHECK=kernel): what one unit writes there and another reads or writes, of one core or of two, must be
// ordered by a flag, a barrier or a meeting of the blocks. What it is not: who used which bytes, which the library keeps for the launch
// (softnpuAscendcUseGlobal). Called by instructions that reach global memory, and by what orders cores (sync.h).
#pragma once

#include <cstdint>
#include <iterator>

#include "ascendc/core.h"

namespace AscendC::detail {

// Pieces of global memory, and with `value` what will be written to them.
struct GlobalPieces {
  const void* start;
  uint64_t bytes, count = 1, step = 0;
  const void* value = nullptr;
  uint64_t value_step = 0;
};

inline std::string core_name(const Core& c, uint32_t index) {
  const uint32_t cores = c.mixed ? c.ratio + 1 : 1, place = index % cores;
  if (cores == 1) return format("block %u", index);
  return format("block %u's ", index / cores) + (place == 0 ? "cube core" : format("vector core %u", place - 1));
}

// A use of global memory while it lasts; then the lock of all such uses goes.
class GlobalUse {
 public:
  GlobalUse(Core& c, Unit unit, uint32_t kind, const GlobalPieces& p, const char* what, Site at) {
    if (!c.hazards.on()) return;
    launch_ = c.block.launch;
    softnpuAscendcLockUses(launch_);
    if (c.atomic != Core::Atomic::kNone && kind == SOFTNPU_ASCENDC_WRITES && unit != kScalar)
      kind = SOFTNPU_ASCENDC_ADDS;
    const softnpuAscendcUse use{p.start, p.bytes, p.count, p.step, kind, c.block.index, unit, c.hazards.when(unit),
                                what,    at.file, at.line};
    const void* value = kind == SOFTNPU_ASCENDC_WRITES ? p.value : nullptr;
    softnpuAscendcUse other;
    if (!softnpuAscendcUseGlobal(launch_, &use, c.hazards.known(unit).at.data(), value, p.value_step, &other)) return;
    softnpuAscendcUnlockUses(launch_);
    complain(c, use, other);
  }
  ~GlobalUse() {
    if (launch_) softnpuAscendcUnlockUses(launch_);
  }
  GlobalUse(const GlobalUse&) = delete;
  GlobalUse& operator=(const GlobalUse&) = delete;

 private:
  [[noreturn]] static void complain(const Core& c, const softnpuAscendcUse& use, const softnpuAscendcUse& other) {
    constexpr const char* kDoes[] = {"reads", "writes", "adds to"};
    constexpr const char* kDid[] = {"read", "wrote", "added to"};
    const Unit unit = static_cast<Unit>(use.unit), before = static_cast<Unit>(other.unit);
    const Site there{other.file, other.line};
    const auto first = static_cast<const uint8_t*>(other.start) - static_cast<const uint8_t*>(use.start);
    const std::string both = format("the %s %s global memory (bytes %lld to %lld from its operand on) that ",
                                    unit_name(unit), kDoes[use.kind], static_cast<long long>(first),
                                    static_cast<long long>(first + static_cast<long long>(other.bytes) - 1));
    const std::string did = format("%s:%d (%s) %s", there.name(), there.line, other.what, kDid[other.kind]);
    std::string text;
    if (use.block != other.block)
      text = core_name(c, other.block) + " " + kDid[other.kind] +
             format(" at %s:%d (%s)", there.name(), there.line, other.what) +
             format(
                 ", and nothing has %s wait for that: SyncAll, or CrossCoreSetFlag<mode, PIPE_%s> there and "
                 "CrossCoreWaitFlag here,"
                 " is missing",
                 core_name(c, use.block).c_str(), pipe_name(before));
    else if (unit == before)
      text = did + format(", and nothing makes it wait for itself: PipeBarrier<PIPE_%s> is missing", pipe_name(unit));
    else
      text = did + format(
                       ", and nothing makes it wait for the %s: SetFlag and WaitFlag<HardEvent::%s_%s>, or "
                       "PipeBarrier<PIPE_ALL>, is"
                       " missing",
                       unit_name(before), pipe_name(before), pipe_name(unit));
    fail({use.file, use.line}, use.what, both + text);
  }

  void* launch_ = nullptr;
};

// The core reads global memory. Now and then where it has read before, and rarely in any case, other blocks get their turn, as it may be
// waiting so for another block's word.
[[gnu::cold, gnu::noinline]] inline void give_way(Core& c, const char* what, Site at) {
  c.polls = 0;
  if (softnpuAscendcGiveWay(c.block.launch)) fail(at, what, SOFTNPU_ASCENDC_FOLLOWS);
}
inline void read_at(Core& c, const void* p, const char* what, Site at) {
  constexpr uint32_t kTurn = 1u << 20, kAgain = 512;
  const auto address = reinterpret_cast<uintptr_t>(p);
  uintptr_t& before = c.polled[(address >> 2 ^ address >> 8) % std::size(c.polled)];
  c.polls += before == address ? kAgain : 1;
  before = address;
  if (__builtin_expect(c.polls >= kTurn, 0)) give_way(c, what, at);
}

inline void reads_global(Core& c, Unit unit, const GlobalPieces& p, const char* what, Site at) {
  read_at(c, p.start, what, at);
  const GlobalUse use(c, unit, SOFTNPU_ASCENDC_READS, p, what, at);
}

// What cores tell each other, by words: bits 32 and up say which kind.
inline constexpr uint64_t kToldByMeeting = 1ull << 32, kToldByFlag = 2ull << 32, kToldByScalar = 1ull << 63;
inline void tell(const Core& c, uint64_t word, const Clock& clock) {
  if (c.hazards.on()) softnpuAscendcTell(c.block.launch, word, c.block.index, clock.at.data());
}
inline void hear(const Core& c, uint64_t word) {
  if (c.hazards.on()) softnpuAscendcHear(c.block.launch, word, c.block.index);
}

// A word as another block writes it: who reads it so also sees what that block had written before.
template <class T>
constexpr bool is_word = sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8;
inline bool aligned_to(const void* p, size_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }
template <class T>
T load(const T* p) {
  if constexpr (is_word<T>)
    if (aligned_to(p, sizeof(T))) {
      T value;
      __atomic_load(p, &value, __ATOMIC_ACQUIRE);
      return value;
    }
  return *p;
}
template <class T>
void store_word(T* p, T value) {
  if constexpr (is_word<T>)
    if (aligned_to(p, sizeof(T))) return __atomic_store(p, &value, __ATOMIC_RELEASE);
  *p = value;
}

// The scalar unit's own reads and writes. A word that one block writes and another reads so is a flag of the kernel's own, which orders
// them: what is told before the word is written is heard after it was read.
template <class T>
T scalar_read(const T* p, const char* what, Site at) {
  Core& c = core(at, what);
  if (!c.hazards.on()) {
    read_at(c, p, what, at);
    return load(p);
  }
  c.hazards.issue(kScalar, what, at);
  reads_global(c, kScalar, {p, sizeof(T)}, what, at);
  const T value = load(p);
  hear(c, kToldByScalar | reinterpret_cast<uintptr_t>(p));
  return value;
}
template <class T>
void scalar_write(T* p, T value, const char* what, Site at) {
  Core& c = core(at, what);
  if (c.hazards.on()) {
    c.hazards.issue(kScalar, what, at);
    {
      const GlobalUse use(c, kScalar, SOFTNPU_ASCENDC_WRITES, {p, sizeof(T)}, what, at);
    }
    tell(c, kToldByScalar | reinterpret_cast<uintptr_t>(p), c.hazards.all());
  }
  store_word(p, value);
}

}  // namespace AscendC::detail
