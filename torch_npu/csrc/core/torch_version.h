// Where PyTorch 2.10 differs from 2.13, for which everything else is written: what it lacks, under 2.13's names, and what both have under
// names of their own. No other file asks for the version. Installed for users' operators, whose gradients are nodes.
// What it is not: Python (torch_npu/_torch_version.py); which versions are taken at all (cmake/Torch.cmake).
#pragma once

#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/headeronly/version.h>

#include <memory>
#include <string>
#include <utility>

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13

#include <ATen/core/GraphImplInterface.h>
#include <c10/util/intrusive_ptr.h>

#define NPU_KINETO_REGISTRY <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#define NPU_DIMNAMES     // one parameter more in 2.10: names of dimensions
#define NPU_NO_DIMNAMES  // and its argument
#define NPU_KEYS_OF_TORCH

namespace npu {

using DeviceStats = c10::CachingDeviceAllocator::DeviceStats;
using SharedConfig = c10::CachingAllocator::AcceleratorAllocatorConfig;
template <class Add>
void set_large_segment(const std::string& megabytes, Add&& add_shared) {
  add_shared("large_segment_size_mb", megabytes);
}

template <class Interface>
using AsksForStreams = Interface;
template <class Allocator, class Stream>
using AsksForCapture = Allocator;
template <class Store>
using HasBarrier = Store;
template <class Options>
using HasDescription = Options;
template <class Functions>
bool skips_next() {
  return Functions::peek_skip_next();
}
inline constexpr bool kNonzeroStaticHasColumns = true;  // what its meta function says of memory

template <class Node>
using NodeOf = c10::intrusive_ptr<Node>;
template <class Node, class... T>
NodeOf<Node> make_node(T&&... arguments) {
  return c10::make_intrusive<Node>(std::forward<T>(arguments)...);
}

}  // namespace npu

#else

#include <ATen/core/NamedTensor.h>
#include <c10/core/Stream.h>
#include <c10/util/ApproximateClock.h>
#include <c10/util/flat_hash_map.h>

#include <atomic>
#include <chrono>
#include <vector>

// Back ends have no registry there: kineto itself is asked.
#define NPU_KINETO_REGISTRY <libkineto.h>
#define REGISTER_PRIVATEUSE1_PROFILER(Class)                                                             \
  [[maybe_unused]] static const bool Class##_registered =                                                \
      (libkineto::api().registerProfilerFactory(                                                         \
           []() -> std::unique_ptr<libkineto::IActivityProfiler> { return std::make_unique<Class>(); }), \
       true)
#define NPU_DIMNAMES , at::DimnameList
#define NPU_NO_DIMNAMES , at::DimnameList()
#define NPU_KEYS_OF_TORCH {"large_segment_size_mb", Kind::kInteger, 20, 1 << 20},  // c10 does not know it

// Types that only CUDA's allocator has there.
namespace c10::CachingDeviceAllocator {

using CreateContextFn = std::shared_ptr<GatheredContext> (*)();
enum struct RecordContext { NEVER, STATE, ALLOC, ALL };

struct BlockInfo {
  size_t size = 0;
  size_t requested_size = 0;
  bool allocated = false;
  bool active = false;
  std::shared_ptr<GatheredContext> context_when_allocated;
};

struct SegmentInfo {
  c10::DeviceIndex device = 0;
  size_t address = 0;
  size_t total_size = 0;
  size_t requested_size = 0;
  size_t allocated_size = 0;
  size_t active_size = 0;
  void* stream = nullptr;
  bool is_large = false;
  bool is_expandable = false;
  MempoolId_t owner_private_pool_id{0, 0};
  std::vector<BlockInfo> blocks;
  std::shared_ptr<GatheredContext> context_when_allocated;
};

struct TraceEntry {
  enum Action {
    ALLOC,
    FREE_REQUESTED,
    FREE_COMPLETED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    SNAPSHOT,
    OOM
  };
  TraceEntry(Action action, c10::DeviceIndex device, size_t address, size_t size, void* stream, MempoolId_t pool,
             approx_time_t time, std::shared_ptr<GatheredContext> context)
      : action_(action),
        device_(device),
        addr_(address),
        context_(std::move(context)),
        stream_(stream),
        size_(size),
        mempool_(pool),
        time_{time} {}
  Action action_;
  c10::DeviceIndex device_;
  size_t addr_;
  std::shared_ptr<GatheredContext> context_;
  void* stream_;
  size_t size_;
  MempoolId_t mempool_;
  struct {
    approx_time_t approx_t_;
  } time_;
  std::string compile_context_;
  std::string user_metadata_;
};

}  // namespace c10::CachingDeviceAllocator

// torch.accelerator.Graph is not there: nobody asks for what is registered.
namespace at {

enum class GraphCaptureMode : int8_t { Default, Global, ThreadLocal, Relaxed };

struct GraphImplArgs {
  bool keep_graph = false;
};

struct GraphImplInterface {
  virtual ~GraphImplInterface() = default;
  virtual void capture_begin(c10::MempoolId_t pool, GraphCaptureMode mode) = 0;
  virtual void capture_end() = 0;
  virtual void instantiate() = 0;
  virtual void replay() = 0;
  virtual void reset() = 0;
  virtual c10::MempoolId_t pool() const = 0;
  virtual void enable_debug_mode() = 0;
  virtual void debug_dump(const std::string& path) = 0;
};

struct NoGraphImplRegistry {
  template <class Make>
  void Register(const char*, Make&&) {}
};
inline NoGraphImplRegistry* GraphImplRegistry() {
  static NoGraphImplRegistry nobody;
  return &nobody;
}

}  // namespace at

namespace torch::autograd {
struct Node;
TORCH_API void deleteNode(Node* node);
}  // namespace torch::autograd

namespace npu {

struct DeviceStats : c10::CachingDeviceAllocator::DeviceStats {
  ska::flat_hash_map<c10::MempoolId_t, c10::CachingAllocator::StatArray, c10::MempoolIdHash>
      reserved_bytes_by_private_pools;
  int64_t num_oom_rejections = 0;
};

// Never made: its functions are static.
struct SharedConfig : c10::CachingAllocator::AcceleratorAllocatorConfig {
  static size_t large_segment_size() { return large_segment(); }
  static std::atomic<size_t>& large_segment() {
    static std::atomic<size_t> bytes{20 << 20};
    return bytes;
  }
};
template <class Add>
void set_large_segment(const std::string& megabytes, Add&&) {
  SharedConfig::large_segment() = std::stoul(megabytes) << 20;
}

// What 2.13 asks a device guard and an allocator of pinned memory, and 2.10 does not: our own files do.
template <class Interface>
struct AsksForStreams : Interface {
  virtual void* getStreamNativeHandle(const c10::Stream stream) const = 0;
  virtual bool isStreamCapturing(const c10::Stream& stream) const = 0;
};
template <class Allocator, class Stream>
struct AsksForCapture : Allocator {
  virtual Stream get_current_stream() const = 0;
  virtual bool stream_is_capturing(Stream stream) const = 0;
};
template <class Store>
struct HasBarrier : Store {
  using Store::Store;
  virtual void barrier(const std::string& key, int64_t world_size, const std::chrono::milliseconds& timeout) = 0;
};
template <class Options>
struct HasDescription : Options {
  using Options::Options;
  std::string group_desc;
};
template <class Functions>  // __torch_function__ is not skipped for one call
bool skips_next() {
  return false;
}
inline constexpr bool kNonzeroStaticHasColumns = false;

template <class Node>
using NodeOf = std::shared_ptr<Node>;
template <class Node, class... T>
NodeOf<Node> make_node(T&&... arguments) {
  return {new Node(std::forward<T>(arguments)...), &torch::autograd::deleteNode};
}

}  // namespace npu

#endif
