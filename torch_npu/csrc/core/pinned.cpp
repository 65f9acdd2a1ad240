#include "csrc/core/pinned.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "csrc/cann/checks.h"
#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/event.h"
#include "csrc/core/graph.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/pinned_use.h"
#include "csrc/core/stream.h"
#include "csrc/core/task_group.h"
#include "csrc/core/torch_version.h"

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

struct PinnedBlock : at::HostBlock<StreamKey> {
  using HostBlock::HostBlock;

  // The following hold mutex_.
  void mark(const std::shared_ptr<PinnedUse>& use) {
    settle();
    if (std::find(uses.begin(), uses.end(), use) == uses.end()) uses.push_back(use);
  }
  // A use that is over left streams which may still run with it.
  void settle() {
    std::erase_if(uses, [&](const std::shared_ptr<PinnedUse>& use) {
      const auto* const behind = use->over();
      if (behind)
        for (const c10::Stream& stream : *behind) streams_.insert(StreamKey(stream));
      return behind != nullptr;
    });
  }

  std::vector<std::shared_ptr<PinnedUse>> uses;
};

using PinnedBase = AsksForCapture<at::CachingHostAllocatorImpl<StreamKey, LastUse, PinnedBlock>, StreamKey>;

class PinnedImpl final : public PinnedBase {
  using Base = PinnedBase;

 public:
  using Block = PinnedBlock;

  // What a capture or an update allocates is its own, whatever uses it: it does not outlive the call for the program.
  std::pair<void*, void*> allocate(size_t size) override {
    if (size) ensure_context();
    const auto allocated = Base::allocate(size);
    auto* const block = static_cast<Block*>(allocated.second);
    if (block) {
      {
        const std::lock_guard<std::mutex> lock(blocks_mutex_);
        blocks_[block->ptr_] = block;
        blocks_[block] = block;
      }
      if (any_capturing() || any_updating()) mark(*block, use_of(current_stream()));
    }
    return allocated;
  }

  bool record_event(void* ptr, void* ctx, c10::Stream stream) override {
    if (!Base::record_event(ptr, ctx, stream)) return false;
    if (const auto use = use_of(stream)) {
      if (Block* const block = block_of(ptr, ctx)) mark(*block, use);
    }
    return true;
  }

  // A forked child drops what it inherited: the locks may be held by a thread that is not there.
  void free(void* ctx) override {
    if (!alive() || (ctx && kept(static_cast<Block*>(ctx)))) return;
    freed_ = static_cast<const Block*>(ctx);
    Base::free(ctx);
  }

  void copy_data(void* dest, const void* src, std::size_t count) const override { std::memcpy(dest, src, count); }

 private:
  // Of what the stream records now; null: it runs what it is given.
  static std::shared_ptr<PinnedUse> use_of(c10::Stream stream) {
    if (const auto group = updated_group(stream)) return group->pinned();
    Graph* const graph = capturing_graph(stream);
    return graph ? graph->pinned() : nullptr;
  }

  static void mark(Block& block, const std::shared_ptr<PinnedUse>& use) {
    if (!use) return;
    const std::lock_guard<std::mutex> lock(block.mutex_);
    block.mark(use);
  }

  // As Base finds it: by its context, or by its address where a tensor has another context.
  Block* block_of(const void* ptr, const void* ctx) {
    const std::lock_guard<std::mutex> lock(blocks_mutex_);
    auto found = blocks_.find(ctx);
    if (found == blocks_.end()) found = blocks_.find(ptr);
    return found == blocks_.end() ? nullptr : found->second;
  }

  // Whether what goes on using it has it now. An event recorded now on a stream that is captured would be that graph's.
  static bool kept(Block* block) {
    for (;;) {  // again where all uses end meanwhile
      std::vector<std::shared_ptr<PinnedUse>> uses;
      {
        const std::lock_guard<std::mutex> lock(block->mutex_);
        block->settle();
      }
      if (any_capturing() || any_updating()) mark_by_streams(*block);
      {
        const std::lock_guard<std::mutex> lock(block->mutex_);
        uses = block->uses;
      }
      if (uses.empty()) return false;
      if (std::any_of(uses.begin(), uses.end(), [&](const auto& use) { return use->keep(block); })) return true;
    }
  }

  static void mark_by_streams(Block& block) {
    std::vector<c10::Stream> streams;
    {
      const std::lock_guard<std::mutex> lock(block.mutex_);
      streams.assign(block.streams_.begin(), block.streams_.end());
    }
    for (const c10::Stream& stream : streams) mark(block, use_of(stream));
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
    {
      const std::lock_guard<std::mutex> lock(blocks_mutex_);
      blocks_.erase(block->ptr_);
      blocks_.erase(block);
    }
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

  static thread_local const Block* freed_;          // by the calling thread, right now
  std::mutex blocks_mutex_;                         // a leaf
  std::unordered_map<const void*, Block*> blocks_;  // by themselves and by their addresses
};

thread_local const PinnedImpl::Block* PinnedImpl::freed_ = nullptr;

using PinnedAllocator = at::CachingHostAllocatorInterface<PinnedImpl, free_pinned>;

PinnedAllocator& instance() {
  static auto* const allocator = new PinnedAllocator();  // leaked: tensors are freed until the process is gone
  return *allocator;
}

const bool registered = (at::setHostAllocator(c10::DeviceType::PrivateUse1, &instance()), true);

}  // namespace

at::HostAllocator* pinned_allocator() { return &instance(); }

void free_pinned(void* block) { instance().free(block); }

bool is_pinned(const void* data) {
  if (!alive() || !cann::acl().aclrtPointerGetAttributes) return false;
  ensure_context();
  aclrtPtrAttributes attributes{};
  return cann::acl().aclrtPointerGetAttributes(data, &attributes) == 0 &&
         attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST;
}

}  // namespace npu
