// Comparisons of wide unsigned integers, which ATen compares only for equality; of all other types they are ATen's. Who calls it: expressions of
// ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

namespace softnpu::ops::kernels {

enum class Than { kLess, kLessOrEqual, kGreater, kGreaterOrEqual };
void compare(Than than, const at::Tensor& self, const at::Tensor& other, at::Tensor& out);
void compare(Than than, const at::Tensor& self, const at::Scalar& other, at::Tensor& out);
// A result of any integer type.
void either_true(const at::Tensor& self, const at::Tensor& other, at::Tensor& out);

}  // namespace softnpu::ops::kernels
