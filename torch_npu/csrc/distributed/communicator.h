// One HcclComm with an owner: made over the group's store at first use, destroyed when its group ends, at the latest with the last
// work that holds it.
#pragma once

#include <hccl/types.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "csrc/distributed/meeting.h"
#include "csrc/distributed/options.h"

namespace npu::distributed {

class Communicator {
 public:
  // Collective over those who meet, of which the first makes the root info. The current device is the rank's.
  Communicator(const Meeting& meeting, const std::string& name, const GroupOptions& options);
  // Collective over `ranks` of the parent: of which the caller is number `rank`. `id` tells it from others of the same parent.
  Communicator(const Communicator& parent, const std::vector<uint32_t>& ranks, uint64_t id, int rank,
               const std::string& name, const GroupOptions& options);
  ~Communicator();
  Communicator(const Communicator&) = delete;

  HcclComm handle() const { return handle_.load(); }
  // Its own number of a rank of the group.
  uint32_t number_of(int rank) const;
  // What went wrong with it, if anything did; asks no stream and does not block.
  std::optional<std::string> async_error() const;
  // What later calls may take. False where this CANN can only be told when a communicator is made.
  bool set_timeout(std::chrono::milliseconds timeout);
  void resume();  // after an error, on all ranks
  // HcclCommDestroy, now: what is not done fails, here and on the other ranks. Nothing can be called any more.
  void end() noexcept;

 private:
  const std::vector<int> ranks_;  // of the group; empty: all, under their own numbers
  std::atomic<HcclComm> handle_{nullptr};
};

}  // namespace npu::distributed
