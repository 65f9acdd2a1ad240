// An operator that holds a collective is several steps on one stream: kernels, and collectives of libhccl.so between them (ADR 9). What
// passes from step to step lies in rooms: parts of the workspace, whose size phase one tells. Who uses it: entry points generated from the
// rows of ops/aclnn.yaml that have `steps`. What it is not: the kernels (their headers), or the collectives (peers.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "softnpu/ops/frame.h"
#include "softnpu/ops/op.h"
#include "softnpu/ops/peers.h"

namespace softnpu::ops {

class Rooms {
 public:
  void add(at::IntArrayRef sizes, at::ScalarType type);
  uint64_t bytes() const { return bytes_; }
  void at_address(void* workspace) { workspace_ = static_cast<char*>(workspace); }
  // A dense tensor in the workspace; valid while that is.
  at::Tensor tensor(size_t i) const;

 private:
  struct Room {
    uint64_t offset;
    std::vector<int64_t> sizes;
    at::ScalarType type;
  };
  std::vector<Room> rooms_;
  uint64_t bytes_ = 0;
  char* workspace_ = nullptr;
};

struct Step {
  void (*run)(Frame& frame, const Rooms& rooms, const Peers& peers);
  bool collective;  // called by phase two, and queues; the others run on the stream
};

struct Script {
  int group;  // the argument that names it
  // Both phases: throws at shapes that do not fit each other or the group, and says what rooms there are.
  void (*prepare)(Frame& frame, Rooms& rooms, const Peers& peers);
  const Step* steps;
  int count;
};

aclnnStatus launch_script(const Op& op, void* workspace, uint64_t size, aclOpExecutor* executor,
                          aclrtStream stream) noexcept;

}  // namespace softnpu::ops
