// The type in which compositions compute: float32, or a wider one of the operand. Included by files of compositions.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

namespace npu::ops {

inline at::Tensor wide(const at::Tensor& t) { return t.to(c10::promoteTypes(t.scalar_type(), at::kFloat)); }

// PyTorch neither subtracts nor reverses uint16, uint32 and uint64 on the device.
inline at::Tensor countable(const at::Tensor& t) { return c10::isBarebonesUnsignedType(t.scalar_type()) ? wide(t) : t; }

}  // namespace npu::ops
