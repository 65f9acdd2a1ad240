// The part of DeviceCache that keeps memory apart: for the graphs, which replay into the addresses they were captured with, and for
// torch.npu.MemPool.
#include <c10/util/Exception.h>

#include <algorithm>

#include "csrc/core/device_cache.h"
#include "csrc/core/memory_stats.h"

namespace npu {

DeviceCache::PrivatePool& DeviceCache::held_pool(c10::MempoolId_t id) {
  const auto found = private_.find(id);
  TORCH_CHECK_VALUE(found != private_.end() && found->second.holders > 0, "npu: device ", static_cast<int>(device_),
                    " has no memory pool (", id.first, ", ", id.second, ")");
  return found->second;
}

void DeviceCache::hold_pool(c10::MempoolId_t id, MemorySource source) {
  const std::lock_guard<std::mutex> lock(lock_);
  const auto [pool, added] = private_.try_emplace(id);
  if (added)
    pool->second.source = source;  // a pool that nobody holds may have segments, which go back where they are from
  ++pool->second.holders;
}

MemorySource DeviceCache::source_of(const BlockPool& pool) const {
  const auto owner = private_.find(pool.owner());
  return owner == private_.end() ? MemorySource{} : owner->second.source;
}

void DeviceCache::drop_pool(c10::MempoolId_t id) {
  const std::lock_guard<std::mutex> lock(lock_);
  --held_pool(id).holders;
}

void DeviceCache::begin_allocate_to(c10::MempoolId_t id, bool capturing, Takes takes) {
  const std::lock_guard<std::mutex> lock(lock_);
  held_pool(id);
  routes_.push_back({id, capturing, std::move(takes)});
  captures_ += capturing;
}

void DeviceCache::end_allocate_to(c10::MempoolId_t id) {
  const std::lock_guard<std::mutex> lock(lock_);
  const auto last = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& route) { return route.id == id; });
  TORCH_CHECK_VALUE(last != routes_.rend(), "npu: nothing is allocated to memory pool (", id.first, ", ", id.second,
                    ")");
  captures_ -= last->capturing;
  routes_.erase(std::next(last).base());
  if (captures_) return;
  for (Block* block : after_capture_) record_uses(block);
  after_capture_.clear();
}

DeviceCache::Pools* DeviceCache::private_pools_of(c10::StreamId stream) {
  for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
    if (!route->takes(stream)) continue;
    auto& pools = private_[route->id].pools[stream];
    if (!pools) pools = std::make_unique<Pools>(stream, route->id);
    return pools.get();
  }
  return nullptr;
}

void DeviceCache::count_reserved(const BlockPool& pool, int64_t bytes) {
  const auto count = [&](c10::CachingAllocator::StatArray& stats) {
    bytes < 0 ? decrease(stats, pool, static_cast<size_t>(-bytes)) : increase(stats, pool, static_cast<size_t>(bytes));
  };
  count(stats_.reserved_bytes);
  if (pool.owner() != c10::MempoolId_t{0, 0}) count(stats_.reserved_bytes_by_private_pools[pool.owner()]);
}

// Blocks point to their pool: it may go when its last segment has gone. Its statistics stay, as CUDA's.
void DeviceCache::forget_empty_private_pools() {
  std::erase_if(private_, [&](const auto& entry) {
    return entry.second.holders == 0 && std::none_of(segments_.begin(), segments_.end(), [&](const auto& segment) {
             return segment.second->pool->owner() == entry.first;
           });
  });
}

}  // namespace npu
