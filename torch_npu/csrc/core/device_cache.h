// The caching allocator of one device: takes segments from CANN, gives out blocks, splits and merges them, and keeps what is
// freed for the stream it belongs to. CUDA's contract, figure for figure: sizes, pools, statistics, snapshots.
// What it is not: the interface PyTorch sees (allocator.h), the free lists (block_pool.h).
//
// One lock guards everything. It is held while CANN allocates, frees or waits for the device (no Python code runs there).
// Cost: a cached small block costs two uncontended locks and some twenty additions to counters for malloc and free together.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/flat_hash_map.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "csrc/core/allocator_config.h"
#include "csrc/core/block_counts.h"
#include "csrc/core/block_pool.h"
#include "csrc/core/event.h"
#include "csrc/core/expandable_segment.h"
#include "csrc/core/memory_history.h"
#include "csrc/core/memory_source.h"

namespace npu {

class DeviceCache {
 public:
  explicit DeviceCache(c10::DeviceIndex device);

  // The calling thread's context is bound to this device. Throws OutOfMemoryError.
  Block* malloc(size_t size, c10::StreamId stream);
  void free(Block* block) noexcept;
  void record_stream(Block* block, c10::Stream stream);

  // Waits for the device and gives free segments back.
  void empty_cache();

  // Private pools (device_cache_private.cpp): from begin to end, allocations of the streams that `takes` names come from the pool.
  // Its memory stays with it until nobody holds it any more; then empty_cache gives it back.
  using Takes = std::function<bool(c10::StreamId)>;
  void hold_pool(c10::MempoolId_t id, MemorySource source = {});  // makes it at first, with segments of that source
  void drop_pool(c10::MempoolId_t id);
  void begin_allocate_to(c10::MempoolId_t id, bool capturing, Takes takes);
  void end_allocate_to(c10::MempoolId_t id);

  void set_memory_fraction(double fraction);
  double memory_fraction() const;

  DeviceStats stats() const;
  void reset_accumulated_stats();
  void reset_peak_stats();
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> snapshot();
  void record_history(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder, size_t max_entries,
                      c10::CachingDeviceAllocator::RecordContext when, bool clear);
  std::vector<MemoryHistory::TraceEntry> history_entries();

  // Bytes of the segment `block` lies in, and its base: what another process must map to see the block.
  std::pair<void*, size_t> segment_of(const Block* block);
  // The same of a block of an expandable segment: the pieces it lies on, and where the first begins.
  std::pair<void*, std::vector<aclrtDrvMemHandle>> pieces_of(const Block* block);

 private:
  struct Pools {
    explicit Pools(c10::StreamId stream, c10::MempoolId_t owner = {0, 0})
        : small(true, stream, owner), large(false, stream, owner) {}
    BlockPool small;
    BlockPool large;
  };
  struct PrivatePool {
    int holders = 0;
    MemorySource source;
    std::map<c10::StreamId, std::unique_ptr<Pools>> pools;
  };
  struct Route {
    c10::MempoolId_t id;
    bool capturing;
    Takes takes;
  };

  Pools& pools_of(c10::StreamId stream);
  Pools* private_pools_of(c10::StreamId stream);
  PrivatePool& held_pool(c10::MempoolId_t id);
  void forget_empty_private_pools();
  void count_reserved(const BlockPool& pool, int64_t bytes);  // negative: given back
  Block* new_block(char* ptr, size_t size, BlockPool* pool);
  void recycle(Block* block);

  Block* find_free(BlockPool& pool, size_t size);
  Block* find_expandable(BlockPool& pool, size_t size);
  Block* allocate_segment(BlockPool& pool, size_t size);
  MemorySource source_of(const BlockPool& pool) const;
  void* allocate_from_cann(size_t bytes);  // null where there is no more
  Block* allocate_or_reclaim(BlockPool& pool, size_t size, size_t requested);
  void take(Block* block, size_t size, size_t requested);
  void return_block(Block* block);
  Block* split_off(Block* block, size_t size);
  void merge(Block* lower, Block* upper);

  Block* map_more(Block* unmapped, size_t size);
  void unmap(Block* block);

  void release_segment(Block* block);
  bool release_for(BlockPool& pool, size_t size);
  void release_all();
  void release_free(Pools& pools);
  void record_uses(Block* block) noexcept;
  void retry_records();
  void collect_garbage();
  void finish_events(bool wait);
  [[noreturn]] void out_of_memory(size_t size, size_t alloc_size);
  size_t total_memory();
  size_t allowed_bytes();
  void trace(MemoryHistory::TraceEntry::Action action, const void* address, size_t size, c10::StreamId stream,
             const std::shared_ptr<c10::GatheredContext>& context = nullptr) {
    if (C10_UNLIKELY(history_.enabled())) add_trace(action, address, size, stream, context);
  }
  void add_trace(MemoryHistory::TraceEntry::Action action, const void* address, size_t size, c10::StreamId stream,
                 const std::shared_ptr<c10::GatheredContext>& context);

  const c10::DeviceIndex device_;
  mutable std::mutex lock_;
  std::string refusal_;  // CANN's reason where it gave no memory for the request that is served
  BlockCounts counts_;
  DeviceStats stats_;  // those that counts_ does not have
  std::map<c10::StreamId, std::unique_ptr<Pools>> pools_;
  Pools* last_pools_ = nullptr;
  c10::StreamId last_stream_ = -1;
  std::map<char*, Block*> segments_;  // base → first block
  std::map<char*, std::unique_ptr<ExpandableSegment>> expandable_;
  Block* spare_ = nullptr;  // Block objects for reuse, by next
  std::vector<std::unique_ptr<Block[]>> slabs_;
  // Blocks freed while other streams still use them, in the order of each stream.
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, std::deque<std::pair<PooledEvent, Block*>>> pending_;
  std::vector<Block*> unrecorded_;  // freed, but a stream in `used_on` has failed and takes no event
  std::map<c10::MempoolId_t, PrivatePool> private_;
  std::vector<Route> routes_;  // the last that takes a stream wins
  int captures_ = 0;           // of the routes: nothing may wait for a stream, query or record an event meanwhile
  std::vector<Block*> after_capture_;  // freed during a capture while other streams used them
  size_t reserved_ = 0;
  double fraction_;
  bool fraction_set_ = false;
  size_t total_memory_ = 0;  // of the device; 0 until asked
  MemoryHistory history_;
};

}  // namespace npu
