// What HCCL cannot reduce as it is: bool and uint8 (as int32, as the vendor does), complex (as pairs), averages, factors, strided
// tensors. Everything queues on the current stream.
#pragma once

#include <ATen/core/Tensor.h>
#include <hccl/types.h>

#include <functional>
#include <vector>

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace npu::distributed {

// Complex as its real view.
at::Tensor as_real(const at::Tensor& tensor);

// A ReduceOp over `ranks`; a value, copied into the steps of a call.
class Reduction {
 public:
  Reduction(const c10d::ReduceOp& op, int ranks);

  HcclReduceOp op() const { return hccl_; }
  // Contiguous memory that HCCL may reduce: `tensor` itself where possible, else a copy.
  at::Tensor prepare(const at::Tensor& tensor) const;
  // What makes of HCCL's result the ReduceOp's, in `tensor` (real): a division, a cast, a copy. Empty where nothing is left to do.
  std::function<void()> finish(const at::Tensor& buffer, const at::Tensor& tensor) const;
  // The call's tensors, and the factor if it is one: the stream uses its memory, too.
  std::vector<at::Tensor> with_factor(std::vector<at::Tensor> tensors) const;

 private:
  c10d::ReduceOp wanted_;
  HcclReduceOp hccl_;
  int ranks_;
};

}  // namespace npu::distributed
