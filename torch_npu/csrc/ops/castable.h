// An output may have any type that the result can be cast to: PyTorch's rule and its message, for operators that make their result
// first. Bodies are in casting_out.cpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

namespace npu {

inline void check_castable(at::ScalarType result, at::ScalarType out) {
  TORCH_CHECK(c10::canCast(result, out), "result type ", result, " can't be cast to the desired output type ", out);
}

// The output, which takes the result: of any type that it can be cast to, or of the result's alone.
at::Tensor& cast_into(at::Tensor& out, const at::Tensor& result);
at::Tensor& copy_into(at::Tensor& out, const at::Tensor& result);

}  // namespace npu
