// See gemm.h. The product itself is a processor's own: gemm_x86.cpp, gemm_arm.cpp.
#include "softnpu/ops/gemm.h"

#include <ATen/ops/baddbmm.h>

namespace softnpu::ops::kernels {

void gemm(const at::Tensor& a, const at::Tensor& b, float alpha, at::Tensor& c) { gemm(a, b, alpha, false, c, c); }

void gemm_each(const at::Tensor& a, const at::Tensor& b, double alpha, bool add, at::Tensor& c) {
  if (a.size(0) == 0) return;
  if (c.scalar_type() != at::kFloat || c.stride(2) != 1 || !gemm_suits(a.select(0, 0), b.select(0, 0))) {
    at::baddbmm_out(c, c, a, b, add ? 1 : 0, alpha);
    return;
  }
  for (int64_t i = 0; i < a.size(0); ++i) {
    at::Tensor out = c.select(0, i);
    gemm(a.select(0, i), b.select(0, i), static_cast<float>(alpha), add, out, out);
  }
}

}  // namespace softnpu::ops::kernels
