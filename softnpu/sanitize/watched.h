// Who watches what clients do, fails it or limits it: one word, a bit or a count for each. Nobody by default, and then what every operator
// passes loads this one word, however many may watch: a word for each would be a cache line for each, in each operator.
// Who sets it: faults.cpp, hooks.cpp, race and memcheck (race/accesses.h), trace and settings of the runtime. What it is not: what they are told.
#pragma once

#include <atomic>
#include <cstdint>

namespace softnpu::sanitize {

inline constexpr uint32_t kFaults = 1;         // ANYCEND_FAULT asks for some: set when the library is loaded
inline constexpr uint32_t kObservers = 2;      // hooks.h
inline constexpr uint32_t kRaces = 4;          // ANYCEND_CHECK=race
inline constexpr uint32_t kMemory = 8;         // ANYCEND_CHECK=memory
inline constexpr uint32_t kLimit = 16;         // a limit of an operator's time was set once (aclrtSetOpExecuteTimeOut)
inline constexpr uint32_t kListener = 1 << 8;  // one of runtime/trace.h; a count from here on
inline constexpr uint32_t kListeners = ~(kListener - 1);

struct alignas(64) Watchers {
  std::atomic<uint32_t> word{0};
};
__attribute__((visibility("default"))) extern constinit Watchers watchers;

inline bool watched(uint32_t by = ~uint32_t{0}) noexcept {
  return __builtin_expect(watchers.word.load(std::memory_order_relaxed) & by, 0) != 0;
}

}  // namespace softnpu::sanitize
