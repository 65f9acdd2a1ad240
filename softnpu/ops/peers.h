// The group of an operator that holds a collective: found by its name, as HcclGetCommName gives it, in the libhccl.so that the process
// has loaded; its collectives, of tensors, on a stream. Who uses it: script.cpp, and the steps of rows of ops/aclnn.yaml.
// What it is not: the collectives themselves. This is the public C ABI of libhccl.so, looked up (ADR 9): libopapi.so does not depend on it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "hccl/types.h"

namespace softnpu::ops {

class Peers {
 public:
  // On the calling thread's current device. Throws where no communicator of the process has that name there.
  explicit Peers(std::string_view group);

  int64_t ranks() const { return ranks_; }
  int64_t rank() const { return rank_; }
  void on(void* stream) { stream_ = stream; }

  // What each rank of the group calls alike, with dense tensors; they are queued on the stream. Sums have the bits that HcclAllReduce gives.
  void all_reduce(const at::Tensor& from, const at::Tensor& to) const;  // a sum
  void all_gather(const at::Tensor& from, const at::Tensor& to) const;  // along dimension 0
  void reduce_scatter(const at::Tensor& from,
                      const at::Tensor& to) const;                      // a sum, of the rank's part along dimension 0
  void all_to_all(const at::Tensor& from, const at::Tensor& to) const;  // equal parts along dimension 0
  // Of rows: `sent[r]` go to rank r, in the order of ranks, and `received[r]` come from it.
  void all_to_all_v(const at::Tensor& from, at::IntArrayRef sent, const at::Tensor& to, at::IntArrayRef received) const;
  void barrier() const;
  void barrier(const at::Tensor& limit) const;  // of hccl/soft.h, read when the stream comes there

 private:
  HcclComm comm_ = nullptr;
  int64_t ranks_ = 0, rank_ = 0;
  void* stream_ = nullptr;
};

}  // namespace softnpu::ops
