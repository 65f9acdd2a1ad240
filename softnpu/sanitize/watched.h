// The word that says whether anybody watches, fails or limits what clients do: a bit for each who may, and a count of trace's listeners.
// It is 0 by default. Every place that would have to tell one of them loads it first: a flag for each would be a cache line for each, in
// every operator. The load is relaxed: who sees a bit then asks its owner, whose slots, locks or guards order the rest.
// Who sets it: faults.cpp, hooks.cpp, race/accesses.cpp, runtime/trace.cpp, runtime/api_settings.cpp. Who reads it: this library, and nnopbase,
// ops, hccl and trace by inline functions of runtime/enqueue.h and runtime/trace.h: so it is exported.
// What it is not: what they are told.
#pragma once

#include <atomic>
#include <cstdint>

namespace softnpu::sanitize {

inline constexpr uint32_t kFaults = 1;     // ANYCEND_FAULT asks for some: set when the library is loaded
inline constexpr uint32_t kObservers = 2;  // hooks.h
inline constexpr uint32_t kRaces = 4;      // ANYCEND_CHECK=race
inline constexpr uint32_t kMemory = 8;     // ANYCEND_CHECK=memory
inline constexpr uint32_t kLimit = 16;  // an operator's time was limited (aclrtSetOpExecuteTimeOut); never taken back
inline constexpr uint32_t kListener = 1 << 8;  // one of runtime/trace.h; a count from here on
inline constexpr uint32_t kListeners = ~(kListener - 1);

struct alignas(64) Watchers {  // a line of its own: what lies beside other words may be written at each task
  std::atomic<uint32_t> word{0};
};
__attribute__((visibility("default"))) extern constinit Watchers watchers;

inline bool watched(uint32_t by) noexcept {
  return __builtin_expect(watchers.word.load(std::memory_order_relaxed) & by, 0) != 0;
}

inline void watch(uint32_t by) noexcept { watchers.word.fetch_or(by, std::memory_order_release); }
inline void unwatch(uint32_t by) noexcept { watchers.word.fetch_and(~by, std::memory_order_relaxed); }

}  // namespace softnpu::sanitize
