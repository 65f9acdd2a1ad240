// Counting for one pool and for all pools together. Who includes it: the parts of DeviceCache.
#pragma once

#include <c10/core/Allocator.h>

#include "csrc/core/block_pool.h"

namespace npu {

constexpr auto kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

inline size_t kind_of(const BlockPool& pool) {
  using c10::CachingAllocator::StatType;
  return static_cast<size_t>(pool.small() ? StatType::SMALL_POOL : StatType::LARGE_POOL);
}

inline void increase(c10::CachingAllocator::StatArray& stat, const BlockPool& pool, size_t amount) {
  stat[kAggregate].increase(amount);
  stat[kind_of(pool)].increase(amount);
}

inline void decrease(c10::CachingAllocator::StatArray& stat, const BlockPool& pool, size_t amount) {
  stat[kAggregate].decrease(amount);
  stat[kind_of(pool)].decrease(amount);
}

}  // namespace npu
