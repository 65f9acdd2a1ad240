// Matrix products. ATen multiplies half precision at a fortieth of fp32's speed on a CPU without fp16 arithmetic: convert,
// multiply, round once. Aliased operands are safe: BLAS never writes over what it still reads, because outputs that share
// memory with an operand go through a temporary.
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/scratch.h"
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
  const bool narrow = is_narrow(a) && is_narrow(b), alike = a.scalar_type() == b.scalar_type();
  const int64_t dims = alike && a.dim() == b.dim() ? a.dim() : 0;
  if (!narrow && (!alike || out.scalar_type() != a.scalar_type())) {
    return put(out, at::matmul(a.to(out.scalar_type()), b.to(out.scalar_type())));
  }
  if (narrow ? dims != 2 && dims != 3 : aliases(out, a, b)) {
    return put(out, at::matmul(widen(a), widen(b)));
  }
  const bool in_place = !narrow && out.scalar_type() == a.scalar_type();
  Tensor x = widen(a, Slot::kFirst), y = widen(b, Slot::kSecond);
  Tensor result = in_place ? out : scratch(out, Slot::kResult);
  if (dims == 2) {
    at::cpu::mm_outf(x, y, result);
  } else if (dims == 3 && a.size(0) == b.size(0)) {
    at::cpu::bmm_outf(x, y, result);
  } else {
    return put(out, at::matmul(x, y));
  }
  if (!in_place) put(out, result);
}

void addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, Tensor& out) {
  if (is_narrow(a)) {
    Tensor result = scratch(out, Slot::kResult);
    at::cpu::addmm_outf(wide_copy(self, Slot::kThird), wide_copy(a, Slot::kFirst), wide_copy(b, Slot::kSecond), beta,
                        alpha, result);
    put(out, result);
  } else if (aliases(out, self, a, b)) {
    put(out, at::cpu::addmm(self, a, b, beta, alpha));
  } else {
    at::cpu::addmm_outf(self, a, b, beta, alpha, out);
  }
}

void baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
             Tensor& out) {
  if (is_narrow(a)) {
    Tensor result = scratch(out, Slot::kResult);
    at::cpu::baddbmm_outf(wide_copy(self, Slot::kThird), wide_copy(a, Slot::kFirst), wide_copy(b, Slot::kSecond), beta,
                          alpha, result);
    put(out, result);
  } else if (aliases(out, self, a, b)) {
    put(out, at::cpu::baddbmm(self, a, b, beta, alpha));
  } else {
    at::cpu::baddbmm_outf(self, a, b, beta, alpha, out);
  }
}

}  // namespace softnpu::ops::kernels
