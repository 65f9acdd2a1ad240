// ProcessGroupHCCL: c10d's Backend on libhccl, registered for "npu" by the Python package without touching PyTorch.
// A synchronous call runs on the caller's stream, an asynchronous one on a stream of the group's that waits for the caller's.
// What it is not: the communication (libhccl) or the store (the caller's). Files: group.cpp (making, launching), connect.cpp
// (communicators), lifetime.cpp (splitting, timeouts, ending), collectives.cpp, exchange.cpp (all-to-all, gather),
// point_to_point.cpp, reduction.h (what HCCL cannot reduce as it is).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "csrc/cann/export.h"
#include "csrc/distributed/coalescing.h"
#include "csrc/distributed/communicator.h"
#include "csrc/distributed/lanes.h"
#include "csrc/distributed/mailbox.h"
#include "csrc/distributed/options.h"
#include "csrc/distributed/watchdog.h"
#include "csrc/distributed/work.h"

namespace npu::distributed {

class NPU_API ProcessGroupHCCL : public c10d::Backend {
 public:
  using Options = GroupOptions;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options);
  // Split off: `ranks` are those of the parent group, whose communicator is `parent`.
  ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options,
                   std::shared_ptr<Communicator> parent, std::vector<uint32_t> ranks, uint64_t split_id);
  ~ProcessGroupHCCL() override;
  // When the last reference goes, though weak ones, which the mailbox has, put the destructor off.
  void release_resources() override;

  const std::string getBackendName() const override { return "hccl"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  // Of calls from now on; also for communicators that exist.
  void setTimeout(std::chrono::milliseconds timeout) override;
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  // The scope was left by an exception: its calls are forgotten.
  void abandon_coalescing();
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  uint64_t split_count() const { return splits_; }
  // From now on this rank joins the communicators that others' messages to it need. For whoever made the group.
  void let_others_ask();

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
  // Over the store: rank 0 names who did not come.
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

  void eagerConnectSingleDevice(at::Device device) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void waitForPendingWorks() override { watched_->wait_for_all(); }
  c10d::ErrorType getError() override;
  // Everything queued fails now, here and on the other ranks; the group cannot be used any more.
  void abort() override;
  void shutdown() override;
  // After a failure, on all ranks: with new communicators, or (`rebuild` false) with the old ones made usable again.
  void reinit(bool rebuild);
  // The communicator of this rank's device and its name in libhccl; where there is none yet it is made, or is 0 and "".
  uintptr_t hccl_comm(int rank, bool make);
  std::string hccl_comm_name(int rank, bool make);

 private:
  struct OnDevice {  // made at the first call with a tensor of the device
    OnDevice(c10::DeviceIndex device, bool high_priority) : lanes(device, high_priority) {}
    std::shared_ptr<Communicator> communicator;         // of all ranks; null before it is needed
    std::map<int, std::shared_ptr<Communicator>> with;  // by peer: what messages go over
    Lanes lanes;
    Communicators all() const;  // each once
  };
  struct Launch {
    c10d::OpType type;
    const char* title;
    Tensors tensors;  // that the group's stream uses
    Tensors outputs;
    std::chrono::milliseconds timeout;
    bool async;
    Lane lane = {};
    bool host_waits = false;
    c10::DeviceIndex device() const;  // of all tensors
  };
  // Prepares the call's buffers with its stream current; the steps that it returns own all they use.
  using Body = std::function<Steps(HcclComm, aclrtStream)>;
  using MessageBody = std::function<Steps(HcclComm, uint32_t, aclrtStream)>;  // the peer's number in the communicator
  // Calls made while it lives go together. `end` launches them; without it, an exception for one, they are forgotten.
  class Together {
   public:
    explicit Together(ProcessGroupHCCL& group) : group_(&group) {
      group.startCoalescing();
      before_ = group.coalescing_.count();
    }
    ~Together() {
      if (group_) group_->coalescing_.drop_inner(before_);
    }
    Together(const Together&) = delete;
    WorkPtr end() { return std::exchange(group_, nullptr)->endCoalescing(); }

   private:
    ProcessGroupHCCL* group_;
    size_t before_;
  };

  // connect.cpp: which communicator a call goes over. They are made at first use, waiting for other ranks.
  std::shared_ptr<OnDevice> on(c10::DeviceIndex device);
  const std::shared_ptr<OnDevice>& on_locked(c10::DeviceIndex device);
  std::shared_ptr<Communicator> whole(c10::DeviceIndex device);
  std::shared_ptr<Communicator> with(c10::DeviceIndex device, int peer);
  std::shared_ptr<Communicator> make_whole(c10::DeviceIndex device, uint64_t generation);
  struct Pair;
  Pair pair(int peer, c10d::Store& store) const;
  Meeting meeting_of(const Pair& pair);
  std::shared_ptr<Communicator> make_pair(c10::DeviceIndex device, const Pair& pair, const Meeting& meeting);
  void join(int peer, c10d::Store& store);
  c10::DeviceIndex device_to_join_on() const;  // -1 where it is not known
  std::mutex& making_with(int peer);
  std::string communicator_name(const std::string& which) const;
  uint64_t generation() const;
  // Makes a communicator the group's, if that is still usable after the while that making it took; else throws.
  std::shared_ptr<Communicator> keep(std::shared_ptr<Communicator> made, c10::DeviceIndex device, uint64_t generation,
                                     const std::function<void(OnDevice&)>& where);
  std::function<void()> still_usable(uint64_t generation) const;  // check_usable, and reinit has not come meanwhile
  Communicators communicators() const;
  Communicators communicators_on(const OnDevice& place) const;
  void check_usable() const;  // throws if the group has ended or failed
  void check_usable_locked(uint64_t generation) const;
  // Where a call without a tensor belongs.
  c10::DeviceIndex own_device() const;
  std::shared_ptr<Communicator> existing(int rank, bool make);
  WorkPtr launch(Launch what, const Body& body);
  WorkPtr launch_message(Launch what, const MessageBody& body);
  WorkPtr launch_over(const std::shared_ptr<Communicator>& communicator, Launch what, const Body& body);
  WorkPtr finish(WorkInfo info, const Tensors& inputs, bool message);
  void give_up(const std::string& reason);
  void check_one(const Tensors& tensors, const char* what) const;
  void check_device(const at::Tensor& tensor, const char* what) const;
  void check_root(int64_t root) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<Options> options_;
  const std::shared_ptr<Watched> watched_;
  const std::shared_ptr<Communicator> parent_;  // of a group that was split off: its communicators come from there
  const std::vector<uint32_t> ranks_in_parent_;
  const uint64_t split_id_ = 0;
  bool eager_ = false;  // a communicator of all was made with the group: messages take it
  std::mutex making_;   // held while one of all is made, which waits for other ranks; after making_with_, before mutex_
  mutable std::mutex mutex_;               // guards the next seven
  std::map<int, std::mutex> making_with_;  // by peer: held while one for messages is made
  std::map<c10::DeviceIndex, std::shared_ptr<OnDevice>> devices_;
  std::map<int, c10::DeviceIndex> joined_;  // peers for whose messages the mailbox joined, until a call of this rank's
  std::optional<c10::DeviceIndex> last_device_;
  bool closed_ = false;
  uint64_t generation_ = 0;  // how often reinit made new communicators
  uint64_t splits_ = 0;
  std::atomic<uint64_t> sequence_{0},
      messages_{0};        // collectives are numbered alike on all ranks, messages by themselves
  uint64_t barriers_ = 0;  // monitored ones
  Coalescing coalescing_;
  Mailbox mailbox_;
};

}  // namespace npu::distributed
