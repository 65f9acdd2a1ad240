#include "csrc/core/pinned.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "csrc/cann/checks.h"
#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/event.h"
#include "csrc/core/graph.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"
#include "csrc/core/task_group.h"

namespace npu {
namespace {

// A stream as the key of a set, and back.
struct StreamKey {
  explicit StreamKey(c10::Stream stream) : value(stream) {}
  operator c10::Stream() const { return value; }
  bool operator==(const StreamKey& other) const { return value == other.value; }
  c10::Stream value;
};

}  // namespace
}  // namespace npu

template <>
struct std::hash<npu::StreamKey> {
  size_t operator()(const npu::StreamKey& key) const noexcept { return std::hash<c10::Stream>()(key.value); }
};

namespace npu {
namespace {

// What a stream did with a block that was freed.
struct LastUse {
  PooledEvent event;
  const void* memory;
  size_t bytes;
};

class PinnedImpl final : public at::CachingHostAllocatorImpl<StreamKey, LastUse> {
  using Base = at::CachingHostAllocatorImpl<StreamKey, LastUse>;

 public:
  using Block = at::HostBlock<StreamKey>;

  std::pair<void*, void*> allocate(size_t size) override {
    if (size) ensure_context();
    return Base::allocate(size);
  }

  // A forked child drops what it inherited: the locks may be held by a thread that is not there.
  void free(void* ctx) override {
    if (!alive() || kept_by_graph(ctx)) return;
    freed_ = static_cast<const Block*>(ctx);
    Base::free(ctx);
  }

  // Behind what `streams` have by then, beside the streams that it was used on.
  void free_behind(void* ctx, const std::vector<c10::Stream>& streams) {
    auto* const block = static_cast<Block*>(ctx);
    {
      const std::lock_guard<std::mutex> lock(block->mutex_);
      for (const c10::Stream& stream : streams) block->streams_.insert(StreamKey(stream));
    }
    free(ctx);
  }

  void copy_data(void* dest, const void* src, std::size_t count) const override { std::memcpy(dest, src, count); }

 private:
  // A graph uses it again at each replay, and an event recorded now would be the graph's: the block is the graph's until that is reset.
  static bool kept_by_graph(void* ctx) {
    if (!any_capturing() && !any_updating()) return false;
    auto* const block = static_cast<Block*>(ctx);
    std::vector<c10::Stream> streams;
    {
      const std::lock_guard<std::mutex> lock(block->mutex_);
      streams.assign(block->streams_.begin(), block->streams_.end());
    }
    return std::any_of(streams.begin(), streams.end(), [ctx](c10::Stream stream) {
      if (const auto group = updated_group(stream)) {
        group->keep_pinned(ctx);
        return true;
      }
      Graph* const graph = capturing_graph(stream);
      if (graph) graph->keep_pinned(ctx);
      return graph != nullptr;
    });
  }

  template <class Call>
  void timed(at::DurationStat& stat, Call&& call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const auto microseconds =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
    const std::lock_guard<std::mutex> lock(stats_.timing_mutex_);
    stat.increase(microseconds.count());
  }

  void allocate_host_memory(size_t size, void** ptr) override {
    timed(stats_.host_alloc_time, [&] { NPU_CHECK(cann::acl().aclrtMallocHost(ptr, size)); });
  }
  void free_block(Block* block) override {
    timed(stats_.host_free_time, [&] { NPU_CHECK(cann::acl().aclrtFreeHost(block->ptr_)); });
  }
  void record_stream(std::optional<std::vector<LastUse>>& uses, StreamKey stream) override {
    PooledEvent event(stream.value.device_index());
    npu::record_event(event.get(), stream.value);
    uses->push_back({std::move(event), freed_->ptr_, freed_->size_});
  }
  bool query_event(LastUse& use) override {
    const cann::OwnQuestion own;
    if (!npu::query_event(use.event.get())) return false;
    cann::block_over(use.memory, use.bytes, use.event.get());
    return true;
  }
  StreamKey get_current_stream() const override { return StreamKey(current_stream()); }
  bool stream_is_capturing(StreamKey stream) const override { return is_capturing(stream); }

  static thread_local const Block* freed_;  // by the calling thread, right now
};

thread_local const PinnedImpl::Block* PinnedImpl::freed_ = nullptr;

void free_pinned(void* ctx);

using PinnedAllocator = at::CachingHostAllocatorInterface<PinnedImpl, free_pinned>;

PinnedAllocator& instance() {
  static auto* const allocator = new PinnedAllocator();  // leaked: tensors are freed until the process is gone
  return *allocator;
}

void free_pinned(void* ctx) { instance().free(ctx); }

const bool registered = (at::setHostAllocator(c10::DeviceType::PrivateUse1, &instance()), true);

}  // namespace

at::HostAllocator* pinned_allocator() { return &instance(); }

void free_pinned_behind(void* ctx, const std::vector<c10::Stream>& streams) {
  instance().impl_->free_behind(ctx, streams);
}

bool is_pinned(const void* data) {
  if (!alive() || !cann::acl().aclrtPointerGetAttributes) return false;
  ensure_context();
  aclrtPtrAttributes attributes{};
  return cann::acl().aclrtPointerGetAttributes(data, &attributes) == 0 &&
         attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST;
}

}  // namespace npu
