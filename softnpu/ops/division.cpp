// Division with a rounding mode (aclnnDivMod).
#include <ATen/ops/div_cpu_dispatch.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/where.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void div_mod(const Tensor& self, const Tensor& other, int64_t mode, Tensor& out) {
  const at::ScalarType common = at::result_type(self, other);  // in which a divisor may become -1
  if (mode != 1 || !at::isIntegralType(common, /*includeBool=*/false) || !at::isSignedType(common)) {
    at::cpu::div_outf(self, other, rounding(mode), out);
    return;
  }
  // The processor traps where the quotient does not fit: the smallest number by -1. Negation wraps, as floor does.
  const Tensor divisor = other.to(common), minus_one = divisor.eq(-1);
  const Tensor quotient = at::cpu::div(self.to(common), divisor.masked_fill(minus_one, 1), rounding(mode));
  put(out, at::where(minus_one, quotient.neg(), quotient));
}

}  // namespace softnpu::ops::kernels
