#include "csrc/core/block_counts.h"

namespace npu {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatType;

void BlockCounts::report(c10::CachingDeviceAllocator::DeviceStats& stats) const {
  constexpr std::array kTypes{StatType::SMALL_POOL, StatType::LARGE_POOL};  // of kinds_
  const std::array<c10::CachingAllocator::StatArray*, kNumbers> arrays{
      &stats.allocation,     &stats.allocated_bytes,     &stats.active, &stats.active_bytes, &stats.requested_bytes,
      &stats.inactive_split, &stats.inactive_split_bytes};
  for (size_t number = 0; number < kNumbers; ++number) {
    Stat& all = (*arrays[number])[static_cast<size_t>(StatType::AGGREGATE)];
    all = Stat();
    all.peak = peak_[number];
    for (size_t i = 0; i < kinds_.size(); ++i) {
      const Kind& kind = kinds_[i];
      Stat& stat = (*arrays[number])[static_cast<size_t>(kTypes[i])];
      stat.current = kind.current[number];
      stat.peak = kind.peak[number];
      stat.allocated = kind.added[number];
      stat.freed = kind.before[number] + kind.added[number] - kind.current[number];
      all.current += stat.current;
      all.allocated += stat.allocated;
      all.freed += stat.freed;
    }
  }
}

void BlockCounts::reset_accumulated() {
  for (Kind& kind : kinds_) {
    kind.added = {};
    kind.before = kind.current;
  }
}

void BlockCounts::reset_peak() {
  for (size_t number = 0; number < kNumbers; ++number) peak_[number] = current(static_cast<Number>(number));
  for (Kind& kind : kinds_) kind.peak = kind.current;
}

}  // namespace npu
