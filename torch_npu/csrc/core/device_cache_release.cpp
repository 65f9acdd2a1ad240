// The part of DeviceCache that gives memory back to the device: to empty the cache, to make room, to collect garbage.
// Freeing is not ordered on streams as reuse is, so the device is waited for first.
#include <c10/util/Exception.h>

#include <algorithm>

#include "csrc/cann/api.h"
#include "csrc/cann/checks.h"
#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/device_cache.h"
#include "csrc/core/device_wait.h"
#include "csrc/core/memory_stats.h"
#include "csrc/core/stream.h"

namespace npu {
namespace {

using Action = MemoryHistory::TraceEntry::Action;

}  // namespace

void DeviceCache::release_segment(Block* block) {
  BlockPool& pool = *block->pool;
  if (const MemorySource source = source_of(pool)) {
    const c10::Device device(c10::DeviceType::PrivateUse1, device_);
    source.free(block->ptr, static_cast<ssize_t>(block->size), device_,
                raw_stream(c10::Stream(c10::Stream::UNSAFE, device, pool.stream())));
  } else {
    NPU_CHECK(cann::acl().aclrtFree(block->ptr));
  }
  pool.erase(block);
  trace(Action::SEGMENT_FREE, block->ptr, block->size, pool.stream());
  segments_.erase(block->ptr);
  reserved_ -= block->size;
  decrease(stats_.segment, pool, 1);
  count_reserved(pool, -static_cast<int64_t>(block->size));
  ++stats_.num_device_free;
  if (block->size >= tuning.max_split_size) stats_.oversize_segments.decrease(1);
  recycle(block);
}

// With max_split_size_mb: frees cached segments that may not be split until `size` bytes are there, largest first.
bool DeviceCache::release_for(BlockPool& pool, size_t size) {
  if (tuning.max_split_size == SIZE_MAX || pool.small()) return false;
  Block key;
  key.size = std::max<size_t>(size, tuning.max_split_size);
  std::vector<Block*> victims;
  const auto& tree = pool.tree();
  const auto at_least = tree.lower_bound(&key);
  if (at_least != tree.end()) {
    victims.push_back(*at_least);
  } else {
    size_t found = 0;
    for (auto it = tree.rbegin(); it != tree.rend() && found < size && (*it)->size >= tuning.max_split_size; ++it) {
      found += (*it)->size;
      victims.push_back(*it);
    }
    if (found < size) return false;
  }
  std::erase_if(victims, [](const Block* block) { return block->is_split() || block->expandable; });
  if (victims.empty()) return false;
  ++stats_.num_sync_all_streams;
  const cann::OwnQuestion own;
  wait_for_device(device_);
  for (Block* block : victims) release_segment(block);
  return true;
}

void DeviceCache::release_all() {
  // A cached block's last kernel may still run: freeing is not ordered on streams as reuse is.
  ++stats_.num_sync_all_streams;
  if (has_context(device_)) wait_for_device(device_);
  retry_records();
  finish_events(true);
  for (auto& [stream, pools] : pools_) release_free(*pools);
  for (auto& [id, pool] : private_) {
    if (pool.holders) continue;  // a graph that replays writes to what is free now
    for (auto& [stream, pools] : pool.pools) release_free(*pools);
  }
  forget_empty_private_pools();
}

void DeviceCache::release_free(Pools& pools) {
  for (BlockPool* pool : {&pools.small, &pools.large}) {
    for (Block* block : pool->all()) {
      if (block->expandable) {
        unmap(block);
      } else if (!block->is_split()) {
        release_segment(block);
      }
    }
  }
}

void DeviceCache::empty_cache() {
  const NPUGuard guard(device_);
  ensure_context();
  const std::lock_guard<std::mutex> lock(lock_);
  if (captures_) return;  // another thread's: waiting for the device would end it, and what is cached serves it
  release_all();
}

// Frees segments that were not used for longer than the average, until the cache is below the threshold.
void DeviceCache::collect_garbage() {
  const auto limit = static_cast<size_t>(tuning.garbage_collection_threshold * static_cast<double>(allowed_bytes()));
  if (reserved_ <= limit) return;
  const size_t wanted = reserved_ - limit;
  std::vector<Block*> idle;
  double total_age = 0;
  for (auto& [stream, pools] : pools_) {
    for (Block* block : pools->large.all()) {
      if (block->is_split() || block->expandable) continue;
      idle.push_back(block);
      total_age += static_cast<double>(pools->large.age(block));
    }
  }
  if (idle.empty()) return;
  ++stats_.num_sync_all_streams;
  wait_for_device(device_);
  size_t freed = 0;
  while (freed < wanted && !idle.empty()) {
    const double average = total_age / static_cast<double>(idle.size());
    const size_t before = idle.size();
    std::erase_if(idle, [&](Block* block) {
      const auto age = static_cast<double>(block->pool->age(block));
      if (freed >= wanted || age < average) return false;
      freed += block->size;
      total_age -= age;
      release_segment(block);
      return true;
    });
    if (idle.size() == before) break;
  }
}

}  // namespace npu
