// Matrix products. ATen multiplies half precision at a fortieth of fp32's speed on a CPU without fp16 arithmetic: convert,
// multiply, round once. Aliased operands are safe: BLAS never writes over what it still reads, because outputs that share
// memory with an operand go through a temporary.
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/widen.h"

namespace softnpu::ops::kernels {

namespace {

// Does writing `out` change an operand? Outputs alias exactly or not at all (cann/README.md).
template <class... Operands>
bool aliases(const Tensor& out, const Operands&... operands) {
  return ((out.const_data_ptr() == operands.const_data_ptr()) || ...);
}

}  // namespace

void matmul(const Tensor& a, const Tensor& b, Tensor& out) {
  if (is_narrow(a) || out.scalar_type() != a.scalar_type() || a.scalar_type() != b.scalar_type()) {
    at::ScalarType wide = is_narrow(a) ? at::kFloat : out.scalar_type();
    return put(out, at::matmul(a.to(wide), b.to(wide)));
  }
  if (aliases(out, a, b)) {
    put(out, at::matmul(a, b));
  } else if (a.dim() == 2 && b.dim() == 2) {
    at::cpu::mm_outf(a, b, out);
  } else if (a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0)) {
    at::cpu::bmm_outf(a, b, out);
  } else {
    put(out, at::matmul(a, b));
  }
}

void addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, Tensor& out) {
  if (is_narrow(a)) {
    put(out, at::cpu::addmm(self.to(at::kFloat), a.to(at::kFloat), b.to(at::kFloat), beta, alpha));
  } else if (aliases(out, self, a, b)) {
    put(out, at::cpu::addmm(self, a, b, beta, alpha));
  } else {
    at::cpu::addmm_outf(self, a, b, beta, alpha, out);
  }
}

void baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
             Tensor& out) {
  if (is_narrow(a)) {
    put(out, at::cpu::baddbmm(self.to(at::kFloat), a.to(at::kFloat), b.to(at::kFloat), beta, alpha));
  } else if (aliases(out, self, a, b)) {
    put(out, at::cpu::baddbmm(self, a, b, beta, alpha));
  } else {
    at::cpu::baddbmm_outf(self, a, b, beta, alpha, out);
  }
}

}  // namespace softnpu::ops::kernels
