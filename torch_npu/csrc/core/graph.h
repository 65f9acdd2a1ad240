// Graphs: what a stream is given between capture_begin and capture_end is recorded, not run; replay runs it again, with the same
// addresses. Also behind torch.accelerator.Graph. What it is not: the memory pool it keeps (device_cache_private.cpp).
//     Graph graph;
//     graph.capture_begin(); y = f(x); graph.capture_end();      // on a stream that is not the default one
//     x.copy_(next); graph.replay();                             // y holds f(next)
// Random operators draw from a seed and an offset in device memory, which each replay sets: it goes on where the generator is.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "csrc/cann/export.h"
#include "csrc/core/event.h"
#include "csrc/core/stream.h"
#include "csrc/core/torch_version.h"

namespace npu {

class PinnedUse;
class TaskGroup;

// What a captured operator draws from: scalars of type int64 on the device, and how far the generator goes in a replay, which is
// less than the graph draws where the capture set it back.
struct CapturedPhilox {
  at::Generator generator;  // of the state alone: the program's may be given another state
  at::Tensor seed;
  at::Tensor offset;
  uint64_t drawn = 0;
  bool used = false;  // else it is registered, and no replay moves it
};

// Not thread-safe: a graph belongs to one thread at a time.
class NPU_API Graph final : public at::GraphImplInterface {
 public:
  // keep_graph changes nothing: CANN has no raw graph beside the executable one.
  explicit Graph(const at::GraphImplArgs& = {}) {}
  ~Graph() override;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override;
  void capture_end() override;
  void instantiate() override;  // CANN has made it executable when the capture ends
  void replay() override;       // on the current stream
  void reset() override;
  c10::MempoolId_t pool() const override;
  void enable_debug_mode() override {}  // what debug_dump writes is there without it
  void debug_dump(const std::string& path) override;

  CapturedPhilox& random_of(const at::Generator& generator);
  CapturedPhilox* random_of(const c10::GeneratorImpl* generator);  // null: nothing drew from it yet
  // What captured work points to, until the graph is reset.
  void keep(std::shared_ptr<void> what) { kept_.push_back(std::move(what)); }
  // Its groups, which are over when it is reset.
  void keep_group(std::shared_ptr<TaskGroup> group) { groups_.push_back(std::move(group)); }
  // Its use of pinned memory, from the capture until it is reset.
  const std::shared_ptr<PinnedUse>& pinned() const { return pinned_; }

 private:
  // Replays of this graph are replays of `other`, whose memory it needs when that is reset, too.
  void take_in(const Graph& other);
  void make_random_memory();
  void set_seeds();
  void finish_capture();
  void stop_routing();
  void check_captured(const char* what) const;

  bool routed_ = false;                // what the capturing stream allocates comes from the pool
  std::optional<c10::Stream> stream_;  // where it is captured, until that ends
  std::optional<c10::MempoolId_t> pool_;
  c10::DeviceIndex device_ = -1;
  aclmdlRI model_ = nullptr;
  at::Tensor
      random_memory_;  // of all seeds and offsets, made before the capture: its pool has temporaries that replays write
  std::list<CapturedPhilox> random_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::shared_ptr<TaskGroup>> groups_;
  std::shared_ptr<PinnedUse> pinned_;
  std::vector<std::pair<std::shared_ptr<PinnedUse>, c10::MempoolId_t>> taken_in_;
  std::vector<c10::Stream> replayed_on_;
  std::vector<std::shared_ptr<void>> told_;  // of the capture that is under way (capture_told.h)
  std::optional<PooledEvent> replayed_;      // after the last replay, of a graph that draws or keeps something
};

// The graph that the current stream is captured into, or null. Cost without any capture: one load.
Graph* capturing_graph();
NPU_API Graph* capturing_graph(c10::Stream stream);
// Whether any thread captures.
NPU_API bool any_capturing() noexcept;

}  // namespace npu
