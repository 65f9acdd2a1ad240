#include "csrc/core/device_cache.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "csrc/cann/api.h"
#include "csrc/cann/checks.h"
#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/info.h"
#include "csrc/core/memory_stats.h"
#include "csrc/core/stream.h"

namespace npu {
namespace {

using Action = MemoryHistory::TraceEntry::Action;
using c10::CachingDeviceAllocator::RecordContext;

constexpr size_t round_up(size_t size, size_t multiple) { return (size + multiple - 1) / multiple * multiple; }

size_t round_power2(size_t size) {
  const size_t divisions = SharedConfig::roundup_power2_divisions(size);
  if (divisions <= 1 || size <= kMinBlockSize * divisions) return round_up(size, kMinBlockSize);
  const size_t power = std::bit_floor(size);
  if (power == size) return size;
  return round_up(size, std::max<size_t>(power / divisions, 1));
}

size_t round_request(size_t size) {
  if (size < kMinBlockSize) return kMinBlockSize;
  if (C10_UNLIKELY(tuning.roundup_power2.load(std::memory_order_relaxed))) return round_power2(size);
  return round_up(size, kMinBlockSize);
}

size_t segment_bytes(size_t size) {
  if (size <= kSmallSize) return kSmallSegment;
  if (size < kMinLargeAlloc) return std::max<size_t>(tuning.large_segment, round_up(size, kRoundLarge));
  return round_up(size, kRoundLarge);
}

bool worth_splitting(const Block* block, size_t size) {
  const size_t rest = block->size - size;
  if (block->pool->small() || block->expandable) return rest >= kMinBlockSize;
  return size < tuning.max_split_size && rest > kSmallSize;
}

}  // namespace

DeviceCache::DeviceCache(c10::DeviceIndex device) : device_(device), fraction_(configured_memory_fraction()) {
  fraction_set_ = fraction_ < 1;
}

DeviceCache::Pools& DeviceCache::pools_of(c10::StreamId stream) {
  if (C10_LIKELY(stream == last_stream_ && last_pools_)) return *last_pools_;
  auto& pools = pools_[stream];
  if (!pools) pools = std::make_unique<Pools>(stream);
  last_stream_ = stream;
  last_pools_ = pools.get();
  return *pools;
}

Block* DeviceCache::new_block(char* ptr, size_t size, BlockPool* pool) {
  constexpr size_t slab = 256;
  if (C10_UNLIKELY(!spare_)) {
    auto& blocks = slabs_.emplace_back(std::make_unique<Block[]>(slab));
    for (size_t i = 0; i < slab; ++i) {
      blocks[i].device = device_;
      recycle(&blocks[i]);
    }
  }
  Block* block = std::exchange(spare_, spare_->next);
  block->ptr = ptr;
  block->size = size;
  block->pool = pool;
  block->prev = block->next = nullptr;
  block->expandable = nullptr;
  block->mapped = true;
  return block;
}

// It is neither in use nor in a pool: not allocated, not free, no event pending, and streams, context and requested are empty.
void DeviceCache::recycle(Block* block) {
  block->next = spare_;
  spare_ = block;
}

// --- giving out ------------------------------------------------------------------------------------------------------------

Block* DeviceCache::malloc(size_t requested, c10::StreamId stream) {
  std::shared_ptr<c10::GatheredContext> context;
  if (C10_UNLIKELY(history_.enabled())) context = history_.context(RecordContext::STATE);
  const size_t size = round_request(requested);
  const std::lock_guard<std::mutex> lock(lock_);
  if (C10_UNLIKELY(!pending_.empty() && !captures_)) finish_events(false);
  Pools* own = C10_UNLIKELY(!routes_.empty()) ? private_pools_of(stream) : nullptr;
  Pools& pools = own ? *own : pools_of(stream);
  BlockPool& pool = size <= kSmallSize ? pools.small : pools.large;
  Block* block = find_free(pool, size);
  if (C10_UNLIKELY(!block)) block = allocate_or_reclaim(pool, size, requested);
  take(block, size, requested);
  if (C10_UNLIKELY(history_.enabled())) {
    block->context = std::move(context);
    trace(Action::ALLOC, block->ptr, requested, stream, block->context);
  }
  return block;
}

// A large request does not take a block that may not be split, unless it nearly fits; see max_split_size_mb.
Block* DeviceCache::find_free(BlockPool& pool, size_t size) {
  Block* block = pool.best_fit(size);
  if (!block || pool.small()) return block;
  const size_t max_split = tuning.max_split_size;
  if (C10_UNLIKELY(max_split != SIZE_MAX)) {
    if (size < max_split && block->size >= max_split) return nullptr;
    if (size >= max_split && block->size >= size + tuning.max_non_split_rounding) return nullptr;
  }
  return block;
}

Block* DeviceCache::allocate_or_reclaim(BlockPool& pool, size_t size, size_t requested) {
  const size_t bytes = segment_bytes(size);
  refusal_.clear();
  if (captures_) {  // making room would wait for the device
    Block* block = allocate_segment(pool, size);
    if (!block) out_of_memory(requested, bytes);
    return block;
  }
  if (C10_UNLIKELY(!unrecorded_.empty())) {
    retry_records();
    finish_events(false);
    if (Block* block = find_free(pool, size)) return block;
  }
  if (C10_UNLIKELY(tuning.garbage_collection_threshold > 0)) collect_garbage();
  Block* block = allocate_segment(pool, size);
  if (!block && release_for(pool, bytes)) block = allocate_segment(pool, size);
  if (!block) {
    const cann::OwnQuestion own;
    release_all();
    ++stats_.num_alloc_retries;
    block = find_free(pool, size);  // waiting for events may have freed one that fits
    if (!block) block = allocate_segment(pool, size);
  }
  if (!block) out_of_memory(requested, bytes);
  return block;
}

void* DeviceCache::allocate_from_cann(size_t bytes) {
  void* base = nullptr;
  const int status = cann::acl().aclrtMalloc(&base, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  if (cann::is_out_of_memory(status)) {
    refusal_ = cann::recent_message();
    return nullptr;
  }
  if (status != 0) cann::throw_status(status, "aclrtMalloc");
  return base;
}

Block* DeviceCache::allocate_segment(BlockPool& pool, size_t size) {
  const MemorySource source = source_of(pool);
  if (!source && tuning.expandable_segments && ExpandableSegment::supported()) return find_expandable(pool, size);
  const size_t bytes = segment_bytes(size);
  if (reserved_ + bytes > allowed_bytes()) return nullptr;
  void* const base =
      source ? source.alloc(static_cast<ssize_t>(bytes), device_, current_raw_stream()) : allocate_from_cann(bytes);
  if (!base) return nullptr;
  Block* block = new_block(static_cast<char*>(base), bytes, &pool);
  segments_.emplace(block->ptr, block);
  reserved_ += bytes;
  increase(stats_.segment, pool, 1);
  count_reserved(pool, static_cast<int64_t>(bytes));
  ++stats_.num_device_alloc;
  if (bytes >= tuning.max_split_size) stats_.oversize_segments.increase(1);
  trace(Action::SEGMENT_ALLOC, base, bytes, pool.stream());
  pool.insert(block);
  return block;
}

// Takes `size` bytes of a free block out of its pool; what is left over, if worth it, stays there.
void DeviceCache::take(Block* block, size_t size, size_t requested) {
  BlockPool& pool = *block->pool;
  pool.erase(block);
  const bool counted = block->is_split() && !block->expandable;  // among the inactive split blocks
  if (worth_splitting(block, size)) {
    Block* rest = split_off(block, size);
    pool.insert(rest);
    if (counted) {
      counts_.decrease(BlockCounts::kSplitBytes, pool, size);
    } else if (!block->expandable) {
      counts_.increase(BlockCounts::kSplitBytes, pool, rest->size);
      counts_.increase(BlockCounts::kSplit, pool, 1);
    }
  } else if (counted) {
    counts_.decrease(BlockCounts::kSplitBytes, pool, block->size);
    counts_.decrease(BlockCounts::kSplit, pool, 1);
  }
  block->allocated = true;
  block->requested = requested;
  counts_.increase(BlockCounts::kAllocation, pool, 1);
  counts_.increase(BlockCounts::kAllocatedBytes, pool, block->size);
  counts_.increase(BlockCounts::kActive, pool, 1);
  counts_.increase(BlockCounts::kActiveBytes, pool, block->size);
  counts_.increase(BlockCounts::kRequestedBytes, pool, requested);
  if (C10_UNLIKELY(block->size >= tuning.max_split_size)) stats_.oversize_allocations.increase(1);
}

Block* DeviceCache::split_off(Block* block, size_t size) {
  Block* upper = new_block(block->ptr + size, block->size - size, block->pool);
  upper->expandable = block->expandable;
  upper->mapped = block->mapped;
  upper->prev = block;
  upper->next = block->next;
  if (block->next) block->next->prev = upper;
  block->next = upper;
  block->size = size;
  return upper;
}

void DeviceCache::merge(Block* lower, Block* upper) {
  lower->size += upper->size;
  lower->next = upper->next;
  if (upper->next) upper->next->prev = lower;
  recycle(upper);
}

// --- taking back -----------------------------------------------------------------------------------------------------------

void DeviceCache::free(Block* block) noexcept {
  std::shared_ptr<c10::GatheredContext> context;
  if (C10_UNLIKELY(history_.enabled())) context = history_.context(RecordContext::ALL);
  const std::lock_guard<std::mutex> lock(lock_);
  BlockPool& pool = *block->pool;
  block->allocated = false;
  counts_.decrease(BlockCounts::kAllocation, pool, 1);
  counts_.decrease(BlockCounts::kAllocatedBytes, pool, block->size);
  if (C10_UNLIKELY(block->size >= tuning.max_split_size)) stats_.oversize_allocations.decrease(1);
  trace(Action::FREE_REQUESTED, block->ptr, block->requested, pool.stream(), context ? context : block->context);
  if (C10_LIKELY(block->used_on.empty())) return return_block(block);
  if (captures_) {
    after_capture_.push_back(block);
  } else {
    record_uses(block);
  }
}

// Other streams still use it: it comes back when they have passed the events recorded now. A stream that failed takes none until
// the program has been told where it waits: the block is kept for retry_records(), and counts that as an event of its own.
void DeviceCache::record_uses(Block* block) noexcept {
  std::erase_if(block->used_on, [&](const c10::Stream& stream) {
    try {
      PooledEvent event(stream.device_index());
      record_event(event.get(), stream);
      pending_[{stream.device_index(), stream.id()}].emplace_back(std::move(event), block);
    } catch (const std::exception&) {
      return false;
    }
    ++block->pending_events;
    return true;
  });
  if (block->used_on.empty()) return;
  ++block->pending_events;
  unrecorded_.push_back(block);
}

// Where no cached block fits, and where the cache is emptied: a stream that works again passes what it was given since.
void DeviceCache::retry_records() {
  for (Block* block : std::exchange(unrecorded_, {})) {
    record_uses(block);
    --block->pending_events;  // that of the last try; those of this one are there
  }
}

void DeviceCache::return_block(Block* block) {
  BlockPool& pool = *block->pool;
  trace(Action::FREE_COMPLETED, block->ptr, block->requested, pool.stream(), block->context);
  counts_.decrease(BlockCounts::kActive, pool, 1);
  counts_.decrease(BlockCounts::kActiveBytes, pool, block->size);
  counts_.decrease(BlockCounts::kRequestedBytes, pool, block->requested);
  block->requested = 0;
  if (C10_UNLIKELY(block->context != nullptr)) block->context.reset();
  int64_t blocks = 0;
  int64_t bytes = 0;
  const auto mergeable = [](const Block* neighbour) { return neighbour && neighbour->free; };
  if (mergeable(block->next)) {
    Block* next = block->next;
    --blocks;
    bytes -= static_cast<int64_t>(next->size);
    pool.erase(next);
    merge(block, next);
  }
  if (mergeable(block->prev)) {
    Block* prev = block->prev;
    --blocks;
    bytes -= static_cast<int64_t>(prev->size);
    pool.erase(prev);
    merge(prev, block);
    block = prev;
  }
  pool.insert(block);
  if (block->expandable) return;
  if (block->is_split()) {
    ++blocks;
    bytes += static_cast<int64_t>(block->size);
  }
  const auto change = [&](BlockCounts::Number number, int64_t by) {
    if (by > 0) counts_.increase(number, pool, static_cast<size_t>(by));
    if (by < 0) counts_.decrease(number, pool, static_cast<size_t>(-by));
  };
  change(BlockCounts::kSplit, blocks);
  change(BlockCounts::kSplitBytes, bytes);
}

void DeviceCache::record_stream(Block* block, c10::Stream stream) {
  const std::lock_guard<std::mutex> lock(lock_);
  if (stream.id() == block->pool->stream() && stream.device_index() == device_) return;
  if (std::find(block->used_on.begin(), block->used_on.end(), stream) == block->used_on.end())
    block->used_on.push_back(stream);
}

void DeviceCache::finish_events(bool wait) {
  const cann::OwnQuestion own;
  for (auto it = pending_.begin(); it != pending_.end();) {
    auto& queue = it->second;
    while (!queue.empty()) {
      auto& [event, block] = queue.front();
      if (wait) {
        synchronize_event(event.get());
      } else if (!query_event(event.get())) {
        break;
      }
      Block* passed = block;
      cann::block_over(passed->ptr, passed->size, event.get());
      queue.pop_front();
      if (--passed->pending_events == 0) return_block(passed);
    }
    it = queue.empty() ? pending_.erase(it) : std::next(it);
  }
}

size_t DeviceCache::total_memory() {
  if (total_memory_ == 0) total_memory_ = memory_info(device_).second;
  return total_memory_;
}

size_t DeviceCache::allowed_bytes() {
  if (!fraction_set_ && tuning.garbage_collection_threshold == 0) return SIZE_MAX;
  return static_cast<size_t>(fraction_ * static_cast<double>(total_memory()));
}

void DeviceCache::set_memory_fraction(double fraction) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1, "Invalid fraction value: ", fraction, ". Allowed range: 0~1");
  const std::lock_guard<std::mutex> lock(lock_);
  fraction_ = fraction;
  fraction_set_ = true;
}

double DeviceCache::memory_fraction() const {
  const std::lock_guard<std::mutex> lock(lock_);
  return fraction_;
}

void DeviceCache::out_of_memory(size_t requested, size_t bytes) {
  using c10::CachingAllocator::format_size;
  ++stats_.num_ooms;
  const auto [free, total] = memory_info(device_);
  const auto allocated = static_cast<size_t>(counts_.current(BlockCounts::kAllocatedBytes));
  trace(Action::OOM, reinterpret_cast<const void*>(free), bytes, 0);
  const c10::Device device(c10::DeviceType::PrivateUse1, device_);
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes), allocated, reserved_, device);
  std::string limit;
  if (fraction_set_) limit = format_size(allowed_bytes()) + " allowed; ";
  std::string others;  // other processes', and what this one has outside of PyTorch
  if (const size_t used = total - std::min(total, free + reserved_); used > total / 100)
    others = " " + format_size(used) +
             " is used by others: npu-smi info lists those of the device, the rest is the machine's.";
  const std::string hint =
      tuning.expandable_segments
          ? ""
          : " If much is reserved but unallocated, PYTORCH_NPU_ALLOC_CONF=expandable_segments:True avoids "
            "fragmentation.";
  TORCH_CHECK_WITH(OutOfMemoryError, false, "NPU out of memory. Tried to allocate ", format_size(requested),
                   ". npu:", static_cast<int>(device_), " has a total capacity of ", format_size(total), " of which ",
                   format_size(free), " is free. ", limit, format_size(allocated), " is allocated by PyTorch, and ",
                   format_size(reserved_ - allocated), " is reserved by PyTorch but unallocated.", others, hint,
                   " See anycend docs memory", refusal_.empty() ? "" : ". CANN: ", refusal_);
}

}  // namespace npu
