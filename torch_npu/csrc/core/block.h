// One stretch of device memory of the caching allocator: in use, free, or (expandable segments) reserved but not mapped.
// What it is not: the free lists (block_pool.h), the policy (device_cache.h).
//
// Blocks of one segment form a list by address (prev, next). The first Block object of a segment stays its first: splitting
// makes a new object for the upper part, merging keeps the lower one. All fields are guarded by the device cache's lock.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <memory>
#include <vector>

namespace npu {

class BlockPool;
class ExpandableSegment;

struct alignas(64) Block {  // two cache lines: one or two are made and joined again for each new tensor
  char* ptr = nullptr;
  size_t size = 0;
  size_t requested = 0;  // what the caller asked for; 0 while free
  BlockPool* pool = nullptr;
  Block* prev = nullptr;
  Block* next = nullptr;
  Block* bin_prev = nullptr;  // in a bin of a small pool
  Block* bin_next = nullptr;
  ExpandableSegment* expandable = nullptr;
  std::vector<c10::Stream> used_on;               // streams other than its own, by recordStream
  std::shared_ptr<c10::GatheredContext> context;  // where it was allocated, if history is recorded
  int64_t idle_since = 0;      // the pool's search counter when it was freed: its age for garbage collection
  uint32_t marks = 0;          // its device's when it was given out, or said to be safe (recovery.h)
  int16_t pending_events = 0;  // freed, but these streams (fewer than 32768) have not passed it yet
  c10::DeviceIndex device = 0;
  bool allocated : 1 = false;
  bool free : 1 = false;   // in its pool: neither in use nor waiting for events
  bool mapped : 1 = true;  // false: in its pool's unmapped set

  bool is_split() const { return prev != nullptr || next != nullptr; }
};
static_assert(sizeof(Block) == 128);

}  // namespace npu
