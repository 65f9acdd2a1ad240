// See gemm.h. No product of our own on Arm: no operands suit, and ATen multiplies.
#include "softnpu/ops/gemm.h"

namespace softnpu::ops::kernels {

bool gemm_suits(const at::Tensor&, const at::Tensor&) { return false; }

bool gemm_needs_sums(const at::Tensor&) { return false; }

void gemm(const at::Tensor&, const at::Tensor&, float, bool, at::Tensor&, at::Tensor&) {
  TORCH_INTERNAL_ASSERT(false, "gemm() without gemm_suits()");
}

}  // namespace softnpu::ops::kernels
