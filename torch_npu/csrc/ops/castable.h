// An output may have any type that the result can be cast to: PyTorch's rule and its message, for operators that make their result
// first.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "csrc/ops/storage.h"

namespace npu {

inline void check_castable(at::ScalarType result, at::ScalarType out) {
  TORCH_CHECK(c10::canCast(result, out), "result type ", result, " can't be cast to the desired output type ", out);
}

inline at::Tensor& cast_into(at::Tensor& out, const at::Tensor& result) {
  check_castable(result.scalar_type(), out.scalar_type());
  resize_out(out, result.sizes());
  return out.copy_(result);
}

}  // namespace npu
