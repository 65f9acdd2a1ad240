// Matrix products: our own (gemm.h) where it is quicker, else ATen's. ATen multiplies half precision at a fortieth of fp32's
// speed on a CPU without that arithmetic: convert, multiply, round once. Aliased operands are safe: BLAS never writes over what it
// still reads, because outputs that share memory with an operand go through a temporary.
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include "softnpu/ops/gemm.h"
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

bool suits(const Tensor& a, const Tensor& b, const Tensor& out) {
  return (out.scalar_type() == at::kFloat || out.scalar_type() == at::kHalf) && out.dim() == 2 && gemm_suits(a, b);
}

// out = alpha a b [+ beta self], by our own product.
void product(const Tensor* self, const Tensor& a, const Tensor& b, float beta, float alpha, Tensor& out) {
  const bool direct = out.stride(1) == 1 && out.stride(0) >= out.size(1) && !aliases(out, a, b);
  const bool add = self != nullptr && beta != 0;
  Tensor result = direct ? out : scratch(out.sizes(), Slot::kResult);
  Tensor sums = result;
  if (is_narrow(result)) sums = add || gemm_needs_sums(a) ? scratch(out.sizes(), Slot::kResult) : Tensor();
  if (add && !(sums.is_same(out) && aliases(out, *self))) sums.copy_(*self);
  if (add && beta != 1) sums.mul_(beta);
  gemm(a, b, alpha, add, sums, result);
  if (!direct) put(out, result);
}

}  // namespace

void matmul(const Tensor& a, const Tensor& b, Tensor& out) {
  if (suits(a, b, out)) return product(nullptr, a, b, 0, 1, out);
  const at::ScalarType type = c10::promoteTypes(a.scalar_type(), b.scalar_type());
  const at::ScalarType wide = is_narrow(type) ? at::kFloat : type;
  if (a.scalar_type() != b.scalar_type()) return put(out, at::matmul(a.to(wide), b.to(wide)));
  const int64_t dims = a.dim() == b.dim() ? a.dim() : 0;
  const bool direct = out.scalar_type() == wide && !aliases(out, a, b);
  const Tensor x = widen(a, Slot::kFirst), y = widen(b, Slot::kSecond);
  const bool keep = wide == at::kFloat;  // what scratch is made of
  if ((direct || keep) && (dims == 2 || (dims == 3 && a.size(0) == b.size(0)))) {
    Tensor result = direct ? out : scratch(out, Slot::kResult);
    if (dims == 2) {
      at::cpu::mm_outf(x, y, result);
    } else {
      at::cpu::bmm_outf(x, y, result);
    }
    if (!direct) put(out, result);
  } else {
    put(out, at::matmul(x, y));
  }
}

void addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, Tensor& out) {
  if (suits(a, b, out)) {
    product(&self, a, b, beta.to<float>(), alpha.to<float>(), out);
  } else if (is_narrow(a)) {
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
