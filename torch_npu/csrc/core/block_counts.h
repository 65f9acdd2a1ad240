// What blocks count as they are given out and taken back: seven numbers for small pools and for large ones. They change with each new
// tensor: taking back writes one number; what was freed, and the sum of both kinds but for its peak, are computed when somebody asks.
// Who has one: DeviceCache, whose lock guards it.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "csrc/core/block_pool.h"

namespace npu {

class BlockCounts {
 public:
  enum Number { kAllocation, kAllocatedBytes, kActive, kActiveBytes, kRequestedBytes, kSplit, kSplitBytes, kNumbers };

  void increase(Number number, const BlockPool& pool, size_t by) {
    const auto amount = static_cast<int64_t>(by);
    Kind& kind = kinds_[kind_of(pool)];
    kind.current[number] += amount;
    kind.added[number] += amount;
    kind.peak[number] = std::max(kind.peak[number], kind.current[number]);
    peak_[number] = std::max(peak_[number], current(number));
  }
  void decrease(Number number, const BlockPool& pool, size_t by) {
    kinds_[kind_of(pool)].current[number] -= static_cast<int64_t>(by);
  }
  int64_t current(Number number) const { return kinds_[0].current[number] + kinds_[1].current[number]; }

  void report(c10::CachingDeviceAllocator::DeviceStats& stats) const;  // its seven arrays; the others stay
  void reset_accumulated();
  void reset_peak();

 private:
  using Numbers = std::array<int64_t, kNumbers>;
  struct Kind {
    Numbers current{};
    Numbers added{};  // since the accumulated numbers were reset
    Numbers peak{};
    Numbers before{};  // current when they were reset: what is freed is before + added - current
  };
  static size_t kind_of(const BlockPool& pool) { return pool.small() ? 0 : 1; }

  std::array<Kind, 2> kinds_{};
  Numbers peak_{};  // of both kinds together
};

}  // namespace npu
