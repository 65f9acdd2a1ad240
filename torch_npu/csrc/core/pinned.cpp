#include "csrc/core/pinned.h"

#include <chrono>

#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/event.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"

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

class PinnedImpl final : public at::CachingHostAllocatorImpl<StreamKey, PooledEvent> {
  using Base = at::CachingHostAllocatorImpl<StreamKey, PooledEvent>;
  using Block = at::HostBlock<StreamKey>;

 public:
  std::pair<void*, void*> allocate(size_t size) override {
    if (size) ensure_context();
    return Base::allocate(size);
  }

  // A forked child drops what it inherited: the locks may be held by a thread that is not there.
  void free(void* ctx) override {
    if (alive()) Base::free(ctx);
  }

  void copy_data(void* dest, const void* src, std::size_t count) const override { std::memcpy(dest, src, count); }

 private:
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
  void record_stream(std::optional<std::vector<PooledEvent>>& events, StreamKey stream) override {
    PooledEvent event(stream.value.device_index());
    npu::record_event(event.get(), stream.value);
    events->push_back(std::move(event));
  }
  bool query_event(PooledEvent& event) override { return npu::query_event(event.get()); }
  StreamKey get_current_stream() const override { return StreamKey(current_stream()); }
  bool stream_is_capturing(StreamKey stream) const override { return is_capturing(stream); }
};

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

bool is_pinned(const void* data) {
  if (!alive() || !cann::acl().aclrtPointerGetAttributes) return false;
  ensure_context();
  aclrtPtrAttributes attributes{};
  return cann::acl().aclrtPointerGetAttributes(data, &attributes) == 0 &&
         attributes.location.type == ACL_MEM_LOCATION_TYPE_HOST;
}

}  // namespace npu
