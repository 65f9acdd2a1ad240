// ProcessGroupHCCL: c10d's Backend on libhccl, registered for "npu" by the Python package without touching PyTorch.
// A synchronous call runs on the caller's stream, an asynchronous one on a stream of the group's that waits for the caller's.
// What it is not: the communication (libhccl) or the store (the caller's). Files: group.cpp (making, launching, coalescing),
// collectives.cpp, point_to_point.cpp, reduction.h (what HCCL cannot reduce as it is).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "csrc/cann/export.h"
#include "csrc/distributed/communicator.h"
#include "csrc/distributed/watchdog.h"
#include "csrc/distributed/work.h"

namespace npu::distributed {

class NPU_API ProcessGroupHCCL : public c10d::Backend {
 public:
  struct NPU_API Options : c10d::Backend::Options {
    Options() : c10d::Backend::Options("hccl") {}
    bool is_high_priority_stream = false;
  };
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options);
  ~ProcessGroupHCCL() override;

  const std::string getBackendName() const override { return "hccl"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;

  void eagerConnectSingleDevice(at::Device device) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void waitForPendingWorks() override { watched_->wait_for_all(); }
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;
  // The communicator's name in libhccl, made if need be.
  std::string hccl_comm_name(int device);

 private:
  enum Lane : uint8_t { kCollective, kSend, kRecv, kLanes };
  struct OnDevice {  // made at the first call with a tensor of the device
    std::shared_ptr<Communicator> communicator;
    std::vector<c10::Stream> streams;
  };
  struct Launch {
    c10d::OpType type;
    const char* title;
    Tensors tensors;  // that the group's stream uses
    Tensors outputs;
    std::chrono::milliseconds timeout;
    bool async;
    Lane lane = kCollective;
    bool host_waits = false;
  };
  // Queues the call with the lane's stream current; returns what must follow it there (a copy back, a division), or nothing.
  using After = std::function<void()>;
  using Body = std::function<After(HcclComm, aclrtStream)>;

  OnDevice& on(c10::Device device);
  WorkPtr launch(Launch what, const Body& body);
  void check_one(const Tensors& tensors, const char* what) const;
  void check_device(const at::Tensor& tensor, const char* what) const;
  void check_root(int64_t root) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<Options> options_;
  const std::shared_ptr<Watched> watched_;
  std::mutex mutex_;  // guards devices_
  std::map<c10::DeviceIndex, OnDevice> devices_;
  std::optional<c10::DeviceIndex> last_device_;
  uint64_t sequence_ = 0;
  bool closed_ = false;

  // Between startCoalescing and endCoalescing, on one thread.
  bool coalescing_ = false;
  std::optional<c10::Stream> coalesced_on_;
  std::vector<After> coalesced_after_;
  Tensors coalesced_outputs_;
};

}  // namespace npu::distributed
