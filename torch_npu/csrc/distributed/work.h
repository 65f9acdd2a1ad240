// What an asynchronous collective gives back: done when its end event has passed on its stream, or on each of its streams where
// several calls were coalesced. Waiting makes the caller's stream
// wait, not the host, unless TORCH_HCCL_BLOCKING_WAIT=1, a timeout is given, or it is a barrier.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "csrc/core/event.h"
#include "csrc/core/stream.h"

namespace npu::distributed {

class Communicator;
using Communicators = std::vector<std::shared_ptr<Communicator>>;

struct WorkInfo {
  int rank;
  c10d::OpType type;
  const char* title;
  uint64_t sequence;
  std::vector<c10::Stream> streams;  // it is done when all have come this far; at least one
  std::vector<at::Tensor> outputs;
  std::chrono::milliseconds timeout;
  bool host_waits;
  Communicators communicators;  // say whether what came to its end also went well
};

class WorkHCCL final : public c10d::Work {
 public:
  explicit WorkHCCL(WorkInfo info);

  bool isCompleted() override;
  bool isSuccess() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  void blockCurrentStream() override { synchronize(); }
  std::vector<at::Tensor> result() override { return info_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return info_.sequence; }

  // The watchdog's: the communicator failed, or the time is over. The first error stays.
  void fail(std::exception_ptr error);
  // A good while: the library has the same limit, counts from the start, and names who is missing.
  bool overdue() const;
  std::string describe() const;
  const WorkInfo& info() const { return info_; }
  bool query() { return isCompleted(); }  // as the flight recorder asks its events

 private:
  void rethrow();
  c10::DeviceIndex device() const { return info_.streams[0].device_index(); }

  const WorkInfo info_;
  std::vector<PooledEvent> ends_;  // by stream
  const std::chrono::steady_clock::time_point began_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace npu::distributed
