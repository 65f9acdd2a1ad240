// How many cores of each kind operators may use, as clients have limited it: for a device, or for a stream, which comes first. The
// software NPU has threads instead of cores: a share of the chip's cores is the same share of an operator's threads, at least one.
// Who calls it: api_core_limit.cpp, and operators by threads_within_limit (enqueue.h); a Device and a Stream have one each.
#pragma once

#include <atomic>
#include <cstdint>

#include "acl/types.h"

namespace softnpu {

class Stream;

class CoreLimit {
 public:
  // 0: none.
  uint32_t of(aclrtDevResLimitType type) const noexcept { return most_[type].load(std::memory_order_relaxed); }
  void set(aclrtDevResLimitType type, uint32_t cores) noexcept { most_[type].store(cores, std::memory_order_relaxed); }
  void clear() noexcept {
    for (auto& m : most_) m.store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint32_t> most_[2] = {0, 0};
};

// Of the chip. Throws for what is no kind of core.
uint32_t chip_cores(aclrtDevResLimitType type);
// What operators on the stream may use, and on a stream of the device that has no limit of its own.
uint32_t allowed_cores(const Stream& stream, aclrtDevResLimitType type);
uint32_t allowed_cores(int device, aclrtDevResLimitType type);

// Remembers that somebody has set a limit: until then nobody looks for one.
void note_core_limit() noexcept;
// The stream whose limit the calling thread's operators have, wherever they run (aclrtUseStreamResInCurrentThread); null: none.
void* limiting_stream() noexcept;
void use_limit_of(void* stream) noexcept;

}  // namespace softnpu
