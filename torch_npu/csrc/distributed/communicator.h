// One HcclComm with an owner: made over the group's store at first use, destroyed with the last group or work that holds it.
#pragma once

#include <hccl/types.h>

#include <chrono>
#include <optional>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace npu::distributed {

class Communicator {
 public:
  // Collective over the group: rank 0 puts the root info into the store under `key`. The current device is the rank's.
  Communicator(c10d::Store& store, const std::string& key, int rank, int size, const std::string& name,
               std::chrono::milliseconds timeout);
  ~Communicator();
  Communicator(const Communicator&) = delete;

  HcclComm handle() const { return handle_; }
  // What went wrong with it, if anything did; asks no stream and does not block.
  std::optional<std::string> async_error() const;

 private:
  HcclComm handle_ = nullptr;
};

}  // namespace npu::distributed
