// An output may have any type that the result can be cast to: PyTorch's rule and its message, for operators that make their result
// first. Who uses it: casting_out.cpp, composite.cpp, composed/linalg_factor.cpp, variance.cpp, npu/shapes.cpp.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

namespace npu {

inline void check_castable(at::ScalarType result, at::ScalarType out) {
  TORCH_CHECK(c10::canCast(result, out), "result type ", result, " can't be cast to the desired output type ", out);
}

}  // namespace npu
