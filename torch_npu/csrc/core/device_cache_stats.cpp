// The part of DeviceCache that tells: statistics, snapshots, history.
#include <c10/util/ApproximateClock.h>

#include <algorithm>

#include "csrc/core/device_cache.h"
#include "csrc/core/stream.h"

namespace npu {
namespace {

using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

// Calls f with every Stat that the blocks do not count.
template <class F>
void for_each_stat(DeviceStats& stats, F&& f) {
  for (auto* array : {&stats.segment, &stats.reserved_bytes}) {
    for (auto& stat : *array) f(stat);
  }
  for (auto& [pool, array] : stats.reserved_bytes_by_private_pools) {
    for (auto& stat : array) f(stat);
  }
  f(stats.oversize_allocations);
  f(stats.oversize_segments);
}

// The handle a snapshot names a stream by.
void* handle_of(c10::DeviceIndex device, c10::StreamId id) {
  return raw_stream(c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), id));
}

}  // namespace

DeviceStats DeviceCache::stats() const {
  const std::lock_guard<std::mutex> lock(lock_);
  DeviceStats stats = stats_;
  counts_.report(stats);
  const size_t max_split = tuning.max_split_size;
  stats.max_split_size = max_split == SIZE_MAX ? -1 : static_cast<int64_t>(max_split);
  return stats;
}

void DeviceCache::reset_accumulated_stats() {
  const std::lock_guard<std::mutex> lock(lock_);
  counts_.reset_accumulated();
  for_each_stat(stats_, [](auto& stat) { stat.reset_accumulated(); });
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
  stats_.num_oom_rejections = 0;
}

void DeviceCache::reset_peak_stats() {
  const std::lock_guard<std::mutex> lock(lock_);
  counts_.reset_peak();
  for_each_stat(stats_, [](auto& stat) { stat.reset_peak(); });
}

std::vector<SegmentInfo> DeviceCache::snapshot() {
  const std::lock_guard<std::mutex> lock(lock_);
  std::vector<SegmentInfo> segments;
  segments.reserve(segments_.size());
  for (const auto& [base, first] : segments_) {
    // Holes of an expandable segment part it into several segments, as on CUDA.
    bool open = false;
    for (const Block* block = first; block; block = block->next) {
      if (!block->mapped) {
        open = false;
        continue;
      }
      if (!open) {
        SegmentInfo& segment = segments.emplace_back();
        segment.device = device_;
        segment.address = reinterpret_cast<size_t>(block->ptr);
        segment.stream = handle_of(device_, block->pool->stream());
        segment.is_large = !block->pool->small();
        segment.is_expandable = block->expandable != nullptr;
        segment.owner_private_pool_id = block->pool->owner();
        open = true;
      }
      SegmentInfo& segment = segments.back();
      BlockInfo& info = segment.blocks.emplace_back();
      info.size = block->size;
      info.requested_size = block->requested;
      info.allocated = block->allocated;
      info.active = block->allocated || block->pending_events > 0 || !block->used_on.empty();
      info.context_when_allocated = block->context;
      segment.total_size += block->size;
      if (info.allocated) segment.allocated_size += block->size;
      if (info.active) {
        segment.active_size += block->size;
        segment.requested_size += block->requested;
      }
    }
  }
  trace(MemoryHistory::TraceEntry::SNAPSHOT, nullptr, reserved_, 0);
  return segments;
}

std::pair<void*, size_t> DeviceCache::segment_of(const Block* block) {
  const std::lock_guard<std::mutex> lock(lock_);
  const Block* first = block;
  while (first->prev && first->prev->mapped) first = first->prev;
  size_t size = 0;
  for (const Block* part = first; part && part->mapped; part = part->next) size += part->size;
  return {first->ptr, size};
}

std::pair<void*, std::vector<aclrtDrvMemHandle>> DeviceCache::pieces_of(const Block* block) {
  const std::lock_guard<std::mutex> lock(lock_);
  const ExpandableSegment& segment = *block->expandable;
  const size_t into_piece = static_cast<size_t>(block->ptr - segment.base()) % segment.piece();
  return {block->ptr - into_piece, segment.pieces(block->ptr, block->size)};
}

std::vector<MemoryHistory::TraceEntry> DeviceCache::history_entries() {
  const std::lock_guard<std::mutex> lock(lock_);
  return history_.entries();
}

void DeviceCache::record_history(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder,
                                 size_t max_entries, c10::CachingDeviceAllocator::RecordContext when, bool clear) {
  const std::lock_guard<std::mutex> lock(lock_);
  history_.configure(enabled, recorder, max_entries, when, clear);
}

void DeviceCache::add_trace(MemoryHistory::TraceEntry::Action action, const void* address, size_t size,
                            c10::StreamId stream, const std::shared_ptr<c10::GatheredContext>& context) {
  history_.add({action, device_, reinterpret_cast<size_t>(address), size, handle_of(device_, stream),
                c10::MempoolId_t{0, 0}, c10::getApproximateTime(), context});
}

}  // namespace npu
