#include "csrc/core/allocator.h"

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "csrc/cann/checks.h"
#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/device_cache.h"
#include "csrc/core/device_wait.h"
#include "csrc/core/info.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/memory_points.h"
#include "csrc/core/options.h"
#include "csrc/core/recovery.h"
#include "csrc/core/region.h"
#include "csrc/core/sharing.h"
#include "csrc/core/stream.h"

namespace npu {
namespace {

constexpr size_t kExabyte = 1ULL << 60;
constexpr size_t kFence = 64;  // bytes behind a block that ANYCEND_CHECK=memory looks at

std::array<std::atomic<DeviceCache*>, kMaxDevices> caches{};  // made at a device's first allocation, never destroyed

std::atomic<const MemorySource*> plugged{nullptr};  // set once, then all memory is the program's; never destroyed
std::mutex& making_caches() {
  static auto* const mutex = new std::mutex();
  return *mutex;
}

// Not a part of its callers, as all that is rare here: empty.cpp takes into itself whatever may be inlined.
C10_NOINLINE DeviceCache& make_cache(c10::DeviceIndex index) {
  check_device(index);
  TORCH_CHECK_NOT_IMPLEMENTED(
      !plugged.load(),
      "npu: statistics, limits, pools and graphs (torch.npu.graph, make_graphed_callables) are "
      "the caching allocator's, which change_current_allocator has replaced; give a pool memory "
      "of your own instead: MemPool(allocator=...) with use_mem_pool");
  load_allocator_config();
  const std::lock_guard<std::mutex> lock(making_caches());
  if (!caches[index].load(std::memory_order_acquire))
    caches[index].store(new DeviceCache(index), std::memory_order_release);
  return *caches[index].load(std::memory_order_acquire);
}

DeviceCache& cache_of(c10::DeviceIndex index) {
  if (C10_LIKELY(index >= 0 && index < kMaxDevices)) {
    DeviceCache* cache = caches[index].load(std::memory_order_acquire);
    if (C10_LIKELY(cache != nullptr)) return *cache;
  }
  return make_cache(index);
}

// Of a record of memory that was just made, what the record has no field for.
C10_NOINLINE void add_point(const void* address, int64_t bytes, c10::DeviceIndex device, c10::StreamId stream) {
  const c10::Stream of(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, device), stream);
  add_memory_point({address, bytes, cache_of(device).stats().active_bytes[0].current, raw_stream(of)});
}

// What a DataPtr of ours carries. A forked child and a finished process drop the block: the lock may be held for ever there.
void free_block(void* context) {
  if (!context || !alive()) return;
  auto* block = static_cast<Block*>(context);
  const c10::DeviceIndex device = block->device;
  const bool recorded = C10_UNLIKELY(c10::memoryProfilingEnabled());
  const void* const address = block->ptr;
  const auto bytes = static_cast<int64_t>(block->size);
  const c10::StreamId stream = recorded ? block->pool->stream() : 0;
  if (recorded) {
    const auto stats = cache_of(device).stats();
    c10::reportMemoryUsageToProfiler(block->ptr, -bytes, stats.allocated_bytes[0].current - bytes,
                                     stats.reserved_bytes[0].current,
                                     c10::Device(c10::DeviceType::PrivateUse1, device));
  }
  if (const cann::Checks* checks = cann::watched.load(std::memory_order_relaxed); C10_UNLIKELY(checks != nullptr))
    checks->block_back(block->ptr);
  cache_of(device).free(block);
  if (recorded) add_point(address, -bytes, device, stream);  // another stream may still use it
}

// PYTORCH_NO_NPU_MEMORY_CACHING=1: straight to CANN, for finding memory errors. Waits for the memory's own device before it
// frees, whichever device the freeing thread works on.
struct Uncached {
  void* pointer;
  c10::DeviceIndex device;
};

void free_uncached(void* context) {
  const std::unique_ptr<Uncached> memory(static_cast<Uncached*>(context));
  if (!memory || !alive()) return;
  try {
    const NPUGuard guard(memory->device);
    ensure_context();
    const int status = wait_for_bound_device();
    if (status != 0) cann::detail::warn_call(status, "aclrtSynchronizeDevice()");
    if (status == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) return;  // what runs may use it: it is not freed
    NPU_WARN(cann::acl().aclrtFree(memory->pointer));
  } catch (const c10::Error& error) {  // the device was lost; nobody is there to take an exception
    TORCH_WARN(error.what_without_backtrace());
  }
}

// Memory of a program's own allocator, which says itself what a stream may still use.
struct Foreign {
  void* pointer;
  size_t bytes;
  c10::DeviceIndex device;
  aclrtStream stream;
};

void free_foreign(void* context) {
  const std::unique_ptr<Foreign> memory(static_cast<Foreign*>(context));
  if (!memory || !alive()) return;
  try {
    const NPUGuard guard(memory->device);
    ensure_context();
    plugged.load()->free(memory->pointer, static_cast<ssize_t>(memory->bytes), memory->device, memory->stream);
  } catch (const c10::Error& error) {  // the device was lost; nobody is there to take an exception
    TORCH_WARN(error.what_without_backtrace());
  }
}

class CachingAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    const c10::DeviceIndex index = current_device();
    const c10::Device device(c10::DeviceType::PrivateUse1, index);
    if (C10_UNLIKELY(size == 0)) return {nullptr, nullptr, &free_block, device};
    ensure_context();
    if (const MemorySource* source = plugged.load(std::memory_order_relaxed); C10_UNLIKELY(source != nullptr))
      return allocate_foreign(*source, size, device);
    if (C10_UNLIKELY(!options().memory_caching)) return allocate_uncached(size, device);
    TORCH_CHECK_WITH(OutOfMemoryError, size < kExabyte, "NPU out of memory. Tried to allocate more than 1EB memory.");
    const cann::Checks* checks = cann::watched.load(std::memory_order_relaxed);
    const size_t with_fence = C10_UNLIKELY(checks && checks->memory) ? size + kFence : size;
    Block* block = nullptr;
    try {
      block = cache_of(index).malloc(with_fence, detail::thread_state.stream[index]);
    } catch (const c10::OutOfMemoryError&) {
      if (!collect_shared()) throw;  // what other processes have let go of
      block = cache_of(index).malloc(with_fence, detail::thread_state.stream[index]);
    }
    block->marks = detail::marks_of(index);
    if (C10_UNLIKELY(checks != nullptr)) checks->block_given(block->ptr, size, block->size, current_raw_stream());
    if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
      const auto stats = cache_of(index).stats();
      c10::reportMemoryUsageToProfiler(block->ptr, static_cast<int64_t>(block->size), stats.allocated_bytes[0].current,
                                       stats.reserved_bytes[0].current, device);
      add_point(block->ptr, static_cast<int64_t>(block->size), index, block->pool->stream());
    }
    return {block->ptr, block, &free_block, device};
  }

  // The context is a Block, not the pointer: this is how PyTorch learns that nothing else hides behind it.
  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return data.get_deleter() == &free_block || data.get_deleter() == &free_uncached ||
           data.get_deleter() == &free_foreign;
  }

  void copy_data(void* dest, const void* src, std::size_t count) const override {
    NPU_CHECK(cann::acl().aclrtMemcpyAsync(dest, count, src, count, ACL_MEMCPY_DEVICE_TO_DEVICE, current_raw_stream()));
  }

  bool initialized() override { return alive(); }

  void emptyCache(c10::MempoolId_t) override {
    if (!alive()) return;
    collect_shared();
    for (auto& cache : caches) {
      if (DeviceCache* made = cache.load(std::memory_order_acquire)) made->empty_cache();
    }
  }

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (!data.get()) return;
    if (data.get_deleter() != &free_block) {  // memory of somebody else (a file mapping): its owner keeps it
      if (const c10::DataPtr* memory = shared_memory(data)) recordStream(*memory, stream);
      return;
    }
    auto* block = static_cast<Block*>(data.get_context());
    cache_of(block->device).record_stream(block, stream);
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    return cache_of(index).stats();
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override { cache_of(index).reset_accumulated_stats(); }
  void resetPeakStats(c10::DeviceIndex index) override { cache_of(index).reset_peak_stats(); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override { return memory_info(index); }

 private:
  C10_NOINLINE static c10::DataPtr allocate_foreign(const MemorySource& source, size_t size, c10::Device device) {
    auto memory = std::make_unique<Foreign>(Foreign{nullptr, size, device.index(), current_raw_stream()});
    memory->pointer = source.alloc(static_cast<ssize_t>(size), device.index(), memory->stream);
    TORCH_CHECK_WITH(OutOfMemoryError, memory->pointer, "NPU out of memory. The program's own allocator gave no ", size,
                     " bytes on ", device, ".");
    void* const pointer = memory->pointer;
    return {pointer, memory.release(), &free_foreign, device};
  }
  C10_NOINLINE static c10::DataPtr allocate_uncached(size_t size, c10::Device device) {
    auto memory = std::make_unique<Uncached>(Uncached{nullptr, device.index()});
    NPU_CHECK(cann::acl().aclrtMalloc(&memory->pointer, size, ACL_MEM_MALLOC_HUGE_FIRST));
    void* pointer = memory->pointer;
    return {pointer, memory.release(), &free_uncached, device};
  }
};

CachingAllocator& instance() {
  static auto* const allocator = new CachingAllocator();  // leaked: tensors are freed until the process is gone
  return *allocator;
}

const bool allocator_registered = (c10::SetAllocator(c10::DeviceType::PrivateUse1, &instance()), true);

struct RawBlocks {
  std::mutex lock;
  ska::flat_hash_map<void*, c10::DataPtr> held;
};

RawBlocks& raw_blocks() {
  static auto* const blocks = new RawBlocks();
  return *blocks;
}

}  // namespace

c10::DeviceAllocator* device_allocator() { return &instance(); }

namespace memory {

void set_fraction(double fraction, c10::DeviceIndex index) { cache_of(index).set_memory_fraction(fraction); }
double get_fraction(c10::DeviceIndex index) { return cache_of(index).memory_fraction(); }

DeviceStats stats(c10::DeviceIndex index) { return cache_of(index).stats(); }

Snapshot snapshot(c10::DeviceIndex index) {
  if (index != -1) check_device(index);
  Snapshot result;
  for (c10::DeviceIndex i = 0; i < device_count(); ++i) {
    result.traces.emplace_back();
    if (index != -1 && i != index) continue;
    DeviceCache* cache = caches[i].load(std::memory_order_acquire);
    if (!cache) continue;
    auto segments = cache->snapshot();
    result.segments.insert(result.segments.end(), std::make_move_iterator(segments.begin()),
                           std::make_move_iterator(segments.end()));
    result.traces.back() = cache->history_entries();
  }
  return result;
}

void record_history(c10::DeviceIndex index, bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder,
                    size_t max_entries, c10::CachingDeviceAllocator::RecordContext when, bool clear) {
  if (index != -1) return cache_of(index).record_history(enabled, recorder, max_entries, when, clear);
  for (c10::DeviceIndex i = 0; i < device_count(); ++i)
    cache_of(i).record_history(enabled, recorder, max_entries, when, clear);
}

// As CUDA's: the first number is of pools that graphs made, the second of those that programs asked for.
c10::MempoolId_t new_pool_id(bool for_graph) {
  static std::atomic<c10::CaptureId_t> next{1};
  const c10::CaptureId_t id = next.fetch_add(1, std::memory_order_relaxed);
  return for_graph ? c10::MempoolId_t{id, 0} : c10::MempoolId_t{0, id};
}

void hold_pool(c10::DeviceIndex index, c10::MempoolId_t id, MemorySource source) {
  cache_of(index).hold_pool(id, source);
}
void drop_pool(c10::DeviceIndex index, c10::MempoolId_t id) { cache_of(index).drop_pool(id); }
void begin_allocate_to(c10::DeviceIndex index, c10::MempoolId_t id, bool capturing,
                       std::function<bool(c10::StreamId)> takes) {
  cache_of(index).begin_allocate_to(id, capturing, std::move(takes));
}
void end_allocate_to(c10::DeviceIndex index, c10::MempoolId_t id) { cache_of(index).end_allocate_to(id); }

void use_source(MemorySource source) {
  const std::lock_guard<std::mutex> lock(making_caches());
  const bool used =
      std::any_of(caches.begin(), caches.end(), [](const auto& cache) { return cache.load() != nullptr; });
  TORCH_CHECK(!used && !plugged.load(),
              "npu: the allocator is in use: change_current_allocator comes once, and before the "
              "first tensor on the npu");
  plugged.store(new MemorySource(source));
}
bool has_source() { return plugged.load() != nullptr; }

void* raw_allocate(size_t bytes, c10::Stream stream) {
  const c10::Stream former = exchange_stream(stream);
  c10::DataPtr data;
  try {
    const NPUGuard guard(stream.device_index());
    data = instance().allocate(bytes);
  } catch (...) {
    exchange_stream(former);
    throw;
  }
  exchange_stream(former);
  void* pointer = data.get();
  RawBlocks& blocks = raw_blocks();
  const std::lock_guard<std::mutex> lock(blocks.lock);
  blocks.held[pointer] = std::move(data);
  return pointer;
}

void raw_free(void* pointer) {
  if (!pointer) return;
  RawBlocks& blocks = raw_blocks();
  c10::DataPtr data;
  {
    const std::lock_guard<std::mutex> lock(blocks.lock);
    const auto found = blocks.held.find(pointer);
    TORCH_CHECK_VALUE(found != blocks.held.end(), "npu: ", pointer, " was not allocated by caching_allocator_alloc");
    data = std::move(found->second);
    blocks.held.erase(found);
  }
}

std::pair<void*, size_t> segment_of(const c10::DataPtr& data) {
  TORCH_CHECK(
      data.get_deleter() == &free_block && data.get_context(),
      "npu: this memory is not of PyTorch's allocator and cannot be shared with another process: clone the tensor");
  auto* block = static_cast<Block*>(data.get_context());
  return cache_of(block->device).segment_of(block);
}

}  // namespace memory

namespace {

// The block of memory that this allocator gave, shared with other processes or not; null for any other memory.
Block* block_of(const c10::DataPtr& data) {
  const c10::DataPtr* const own = data.get_deleter() == &free_block ? &data : shared_memory(data);
  return own && own->get_deleter() == &free_block ? static_cast<Block*>(own->get_context()) : nullptr;
}

}  // namespace

bool is_safe(const c10::DataPtr& data) {
  const Block* const block = block_of(data);
  return !block || block->marks == detail::marks_of(block->device);
}

void carry_safety(const c10::DataPtr& from, const c10::DataPtr& to) {
  const Block* const old = block_of(from);
  Block* const grown = block_of(to);
  if (old && grown) grown->marks = old->marks;
}

void set_safe(const c10::DataPtr& data) {
  if (Block* const block = block_of(data)) block->marks = detail::marks_of(block->device);
}

Region region_of(const c10::DataPtr& data, size_t bytes) {
  if (data.get_deleter() == &free_uncached) return {static_cast<char*>(data.get()), bytes, {}};
  const auto [base, size] = memory::segment_of(data);
  auto* block = static_cast<Block*>(data.get_context());
  if (!block->expandable) return {static_cast<char*>(base), size, {}};
  auto [first, pieces] = cache_of(block->device).pieces_of(block);
  return {static_cast<char*>(first), pieces.size() * block->expandable->piece(), std::move(pieces)};
}

}  // namespace npu
