// Operands of the gradient of max_pool2d as CANN documents them for the chip: Ascend950 takes what PyTorch has, the chips before it float32
// and numbers of elements in int32; on the software NPU they stay as they are unless ANYCEND_STRICT is set. Called by the row of max_pool2d_with_indices_backward in ops/aten.yaml.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu {

at::Tensor pool_operand(const at::Tensor& operand);
at::Tensor pool_numbers(const at::Tensor& indices, const at::Tensor& self);

}  // namespace npu
