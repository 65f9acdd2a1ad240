// What HCCL cannot reduce as it is: bool and uint8 (as int32, as the vendor does), complex (as pairs), averages, factors.
// Every function queues on the current stream.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace npu::distributed {

// Contiguous memory that HCCL may reduce: `tensor` itself where possible, else a copy.
at::Tensor reducible(const at::Tensor& tensor, const c10d::ReduceOp& op);
// After the sum over `ranks`.
void finish_reduction(at::Tensor& reduced, const c10d::ReduceOp& op, int ranks);
// The type of `reducible(tensor)`.
at::ScalarType reducible_type(const at::Tensor& tensor);
// Tensors whose memory is one dense stretch may be moved whole, whatever their strides.
bool dense(const at::Tensor& tensor);
// Complex as its real view.
at::Tensor as_real(const at::Tensor& tensor);

}  // namespace npu::distributed
