// What the compositions of linear algebra share: batches of matrices, in double precision, on the device. Who uses it: the files
// linalg_*.cpp beside it.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::linalg {

// X with op(A) X = B for a triangular A; batches broadcast. By aclnnTriangularSolve.
at::Tensor solve_triangular(const at::Tensor& A, const at::Tensor& B, bool upper, bool transpose, bool unit);

// The rows that a factorization's exchanges (LAPACK's, from one) bring to each place, of `rows` rows.
at::Tensor permutation(const at::Tensor& pivots, int64_t rows);

// Rows of x in another order, which is a batch of int64 vectors.
at::Tensor take_rows(const at::Tensor& x, const at::Tensor& order);

}  // namespace npu::linalg
