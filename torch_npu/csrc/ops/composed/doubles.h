// What compositions do in double precision and CANN has no function for on Ascend910B (ops/hardware.yaml): products of matrices, joining of
// complex tensors, rounding towards zero. Composed of what the chip does take; on the software NPU the processor multiplies. Who uses it:
// files beside it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace npu {

// a @ b of matrices, whose batches broadcast; complex ones, too. Without the processor a sum of elementwise products, in blocks of rows
// of b: memory of about 32 MB.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);

// As at::cat, of at least one tensor; the others' sizes agree.
at::Tensor joined(const std::vector<at::Tensor>& parts, int64_t dim);

// trunc of real numbers.
at::Tensor truncated(const at::Tensor& x);

}  // namespace npu
