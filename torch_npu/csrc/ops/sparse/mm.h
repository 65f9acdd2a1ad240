// Products with COO matrices. Who calls it: compressed.cpp, whose layouts are taken as COO.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::sparse {

// The dense product of COO `self` (m x k) and `dense` (k x n), summed in float for half types.
at::Tensor mm(const at::Tensor& self, const at::Tensor& dense);
at::Tensor mm_sparse(const at::Tensor& self, const at::Tensor& other);

// beta * self + alpha * product, as addmm has it: self is not looked at where beta is 0.
at::Tensor add_scaled(const at::Tensor& self, const at::Tensor& product, const at::Scalar& beta,
                      const at::Scalar& alpha);

}  // namespace npu::sparse
