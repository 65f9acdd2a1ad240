// PyTorch's types and reductions as HCCL's. What it is not: the casts that a reduction needs (reduction.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <hccl/types.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace npu::distributed {

// For moves: any type with elements of 1, 2, 4, 8 bytes. Complex tensors are viewed as real before.
HcclDataType hccl_type(at::ScalarType type);
HcclReduceOp hccl_op(const c10d::ReduceOp& op);  // AVG and PREMUL_SUM are sums

}  // namespace npu::distributed
