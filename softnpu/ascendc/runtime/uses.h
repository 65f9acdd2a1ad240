// Who used which bytes of global memory in one run of a kernel, and which blocks know of it (ANYCEND_CHECK=kernel). What it is not: order
// inside a core, which comes with each use as the clocks of its units (include/ascendc/hazard.h). Called by blocks; its lock is taken before the atomics'.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "softnpu/ascendc/include/ascendc/runtime.h"

namespace softnpu::ascendc {

class Uses {
 public:
  std::mutex& mutex() { return mutex_; }

  // With the lock held. False: nothing orders the use after *other, whose bytes become those that both use.
  bool add(const softnpuAscendcUse& use, const uint32_t* known, const uint8_t* value, uint64_t value_step,
           softnpuAscendcUse* other);
  void tell(uint64_t word, uint32_t block, const uint32_t* clock);
  void hear(uint64_t word, uint32_t block);

 private:
  using Clock = std::array<uint32_t, SOFTNPU_ASCENDC_UNITS>;
  using Known = std::unordered_map<uint32_t, Clock>;  // by block: how far each of its units is known to have come
  using Address = uintptr_t;
  struct Stretch {
    Address end;
    std::vector<softnpuAscendcUse> uses;  // the last ones: none of them is followed by a write that is ordered after it
  };

  static void join(Known& into, const Known& from);
  bool ordered(const softnpuAscendcUse& before, const softnpuAscendcUse& now, const uint32_t* known) const;
  bool piece(const softnpuAscendcUse& use, Address start, const uint32_t* known, const uint8_t* value,
             softnpuAscendcUse* other);
  std::map<Address, Stretch>::iterator split(Address at);

  std::mutex mutex_;
  std::map<Address, Stretch> stretches_;
  std::unordered_map<uint32_t, Known> blocks_;
  std::unordered_map<uint64_t, Known> words_;
};

}  // namespace softnpu::ascendc
