// The record of allocations for PyTorch's memory viewer: a ring of the last events, with the stacks a recorder gathers.
// Off unless torch.npu.memory._record_memory_history asked. Guarded by the device cache's lock.
#pragma once

#include <atomic>
#include <vector>

#include "csrc/core/torch_version.h"

namespace npu {

class MemoryHistory {
 public:
  using TraceEntry = c10::CachingDeviceAllocator::TraceEntry;
  using RecordContext = c10::CachingDeviceAllocator::RecordContext;

  // The one question asked without the lock.
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }

  void configure(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder, size_t max_entries,
                 RecordContext when, bool clear) {
    enabled_ = enabled;
    recorder_ = enabled ? recorder : nullptr;
    when_ = enabled ? when : RecordContext::NEVER;
    max_entries_ = max_entries ? max_entries : 1;
    if (clear || !enabled) {
      entries_.clear();
      next_ = 0;
    }
  }

  // The caller's stack if contexts are recorded from `level` on, else null. Called outside the cache's lock.
  std::shared_ptr<c10::GatheredContext> context(RecordContext level) const {
    return recorder_ && when_ >= level ? recorder_() : nullptr;
  }

  void add(TraceEntry entry) {
    if (entries_.size() < max_entries_) {
      entries_.push_back(std::move(entry));
    } else {
      entries_[next_] = std::move(entry);
      next_ = (next_ + 1) % max_entries_;
    }
  }

  // Oldest first.
  std::vector<TraceEntry> entries() const {
    std::vector<TraceEntry> ordered(entries_.begin() + static_cast<std::ptrdiff_t>(next_), entries_.end());
    ordered.insert(ordered.end(), entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(next_));
    return ordered;
  }

 private:
  std::atomic<bool> enabled_{false};
  c10::CachingDeviceAllocator::CreateContextFn recorder_ = nullptr;
  RecordContext when_ = RecordContext::NEVER;
  size_t max_entries_ = 1;
  size_t next_ = 0;
  std::vector<TraceEntry> entries_;
};

}  // namespace npu
