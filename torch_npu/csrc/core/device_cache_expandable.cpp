// The part of DeviceCache that grows and shrinks expandable segments.
#include "csrc/core/device_cache.h"

#include <algorithm>

#include "csrc/core/memory_stats.h"

namespace npu {
namespace {

using Action = MemoryHistory::TraceEntry::Action;
size_t free_bytes(const Block* block) { return block && block->free ? block->size : 0; }

}  // namespace

// A free block of at least `size` bytes, made by mapping more of a segment; null when the device is out of memory.
Block* DeviceCache::find_expandable(BlockPool& pool, size_t size) {
  for (Block* hole : pool.unmapped()) {
    if (free_bytes(hole->prev) + hole->size + free_bytes(hole->next) >= size) {
      const size_t below = free_bytes(hole->prev);
      return map_more(hole, size > below ? std::min(size - below, hole->size) : hole->size);
    }
  }
  const size_t piece = pool.small() ? kSmallSegment : tuning.large_segment.load();
  auto segment = std::make_unique<ExpandableSegment>(device_, piece, total_memory(), refusal_);
  if (!segment->reserved()) return nullptr;
  Block* hole = new_block(segment->base(), segment->size(), &pool);
  hole->expandable = segment.get();
  hole->mapped = false;
  segments_.emplace(hole->ptr, hole);
  pool.unmapped().insert(hole);
  expandable_.emplace(segment->base(), std::move(segment));
  return map_more(hole, size);
}

// Maps the first `size` bytes of a hole, joins them with the free neighbours, and returns the free block that results.
Block* DeviceCache::map_more(Block* hole, size_t size) {
  ExpandableSegment& segment = *hole->expandable;
  BlockPool& pool = *hole->pool;
  const size_t bytes = std::min((size + segment.piece() - 1) / segment.piece() * segment.piece(), hole->size);
  if (reserved_ + bytes > allowed_bytes() || !segment.map(hole->ptr, bytes, refusal_)) return nullptr;
  pool.unmapped().erase(hole);
  if (bytes < hole->size) pool.unmapped().insert(split_off(hole, bytes));
  hole->mapped = true;
  reserved_ += bytes;
  count_reserved(pool, static_cast<int64_t>(bytes));
  ++stats_.num_device_alloc;
  trace(Action::SEGMENT_MAP, hole->ptr, bytes, pool.stream());
  Block* block = hole;
  if (free_bytes(block->next)) {
    pool.erase(block->next);
    merge(block, block->next);
  }
  if (free_bytes(block->prev)) {
    block = block->prev;
    pool.erase(block);
    merge(block, block->next);
  }
  pool.insert(block);
  return block;
}

// Gives the whole pieces inside a free block back; what is left at its ends stays free. The device has finished with it.
void DeviceCache::unmap(Block* block) {
  ExpandableSegment& segment = *block->expandable;
  BlockPool& pool = *block->pool;
  const size_t piece = segment.piece();
  const size_t offset = static_cast<size_t>(block->ptr - segment.base());
  const size_t begin = (offset + piece - 1) / piece * piece;
  const size_t end = (offset + block->size) / piece * piece;
  if (begin >= end) return;
  pool.erase(block);
  if (begin > offset) {
    Block* rest = split_off(block, begin - offset);
    pool.insert(block);
    block = rest;
  }
  if (end - begin < block->size) pool.insert(split_off(block, end - begin));
  segment.unmap(block->ptr, block->size);
  block->mapped = false;
  const size_t bytes = block->size;
  reserved_ -= bytes;
  count_reserved(pool, -static_cast<int64_t>(bytes));
  ++stats_.num_device_free;
  trace(Action::SEGMENT_UNMAP, block->ptr, bytes, pool.stream());
  if (block->next && !block->next->mapped) {
    pool.unmapped().erase(block->next);
    merge(block, block->next);
  }
  if (block->prev && !block->prev->mapped) {
    Block* prev = block->prev;
    pool.unmapped().erase(prev);
    merge(prev, block);
    block = prev;
  }
  if (block->is_split()) {
    pool.unmapped().insert(block);
    return;
  }
  segments_.erase(block->ptr);
  expandable_.erase(segment.base());
  recycle(block);
}

}  // namespace npu
