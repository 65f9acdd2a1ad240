// Numbers of elements that PyTorch has in int64 and CANN's documentation in int32: `int32:` of a row of ops/aten.yaml. Whatever does not
// fit stays int64, which a chip may refuse. For generated wrappers.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu {

// An operand whose numbers should be less than `end`. Those that are wrong stay wrong: none wraps to one that is right.
at::Tensor in_int32(const at::Tensor& numbers, int64_t end);

// Where to write numbers less than `end` for `result`, which is copied from it; `result` itself if they may not fit.
at::Tensor room_in_int32(const at::Tensor& result, int64_t end);

}  // namespace npu
