// Division with a rounding mode (aclnnDivMod).
#include <ATen/ExpandUtils.h>
#include <ATen/ops/div.h>
#include <ATen/ops/div_cpu_dispatch.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/where.h>

#include "softnpu/ops/retyped.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {

void need_quotient(const Tensor& self, const Tensor& other, int64_t mode, const Tensor& out) {
  need_sizes("the result", out, at::infer_size(self.sizes(), other.sizes()));
  TORCH_CHECK(mode == 0 || !at::isComplexType(at::result_type(self, other)),
              "a quotient of complex numbers is not rounded: mode is ", mode, ", not 0");
}

void quotient(const Tensor& self, const Tensor& other, Tensor& out) {
  if (!at::isIntegralType(out.scalar_type(), /*includeBool=*/true)) return void(at::cpu::div_outf(self, other, out));
  const Tensor in_doubles = at::div(self.to(at::kDouble), other.to(at::kDouble));
  const at::ScalarType common = at::result_type(self, other);
  if (!at::isIntegralType(common, /*includeBool=*/false) || common == at::kUInt64) return put(out, in_doubles);
  const Tensor divisor = other.to(at::kLong), zero = divisor.eq(0), minus_one = divisor.eq(-1);
  const Tensor whole = at::cpu::div(self.to(at::kLong), divisor.masked_fill(zero.logical_or(minus_one), 1), "trunc");
  put(out, at::where(zero, in_doubles.to(at::kLong), at::where(minus_one, whole.neg(), whole)));
}

void div_mod(const Tensor& self, const Tensor& other, int64_t mode, Tensor& out) {
  if (mode == 0) return quotient(self, other, out);
  const at::ScalarType common = at::result_type(self, other);  // in which a divisor may become -1
  if (common == at::kBool) return put(out, at::cpu::div(self.to(at::kInt), other.to(at::kInt), rounding(mode)));
  if (mode != 1 || !at::isIntegralType(common, /*includeBool=*/false) || !at::isSignedType(common)) {
    at::cpu::div_outf(self, other, rounding(mode), out);
    return;
  }
  TORCH_CHECK(at::canCast(common, out.scalar_type()), "result type ", common,
              " can't be cast to the desired output type ", out.scalar_type());
  // The processor traps where the quotient does not fit: the smallest number by -1. Negation wraps, as floor does.
  const Tensor divisor = other.to(common), minus_one = divisor.eq(-1);
  const Tensor quotient = at::cpu::div(self.to(common), divisor.masked_fill(minus_one, 1), rounding(mode));
  put(out, at::where(minus_one, quotient.neg(), quotient));
}

}  // namespace softnpu::ops::kernels
