// Products of matrices in fp32, for operands that ATen's BLAS multiplies slowly: fp16, which is converted on the way into the
// packed blocks, and fp32 on processors for which MKL has no AVX-512 kernel (AMD's: a third slower than this one).
// Sums run over k in one order whatever the number of threads: the result does not depend on it.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

// Will gemm() be quicker than ATen? a [m, k], b [k, n], each fp32 or fp16, with one stride of 1.
bool gemm_suits(const at::Tensor& a, const at::Tensor& b);

// c = alpha * a b. c [m, n] is fp32 with columns side by side and shares no memory with a and b. Uses ATen's threads; inside
// a parallel loop it uses one.
void gemm(const at::Tensor& a, const at::Tensor& b, float alpha, at::Tensor& c);
// out = sums + alpha * a b, or without the sums: then they are only room. Both are like c; out may be fp16, or be the sums.
void gemm(const at::Tensor& a, const at::Tensor& b, float alpha, bool add, at::Tensor& sums, at::Tensor& out);
// Does gemm() need that room for an fp16 result?
bool gemm_needs_sums(const at::Tensor& a);

// c = alpha * a b, or that added to c, for each of several matrices [n, rows, columns] of one floating-point type, by whichever is quicker.
void gemm_each(const at::Tensor& a, const at::Tensor& b, double alpha, bool add, at::Tensor& c);

}  // namespace softnpu::ops::kernels
