// See compare.h.
#include "softnpu/ops/compare.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ge_cpu_dispatch.h>
#include <ATen/ops/gt_cpu_dispatch.h>
#include <ATen/ops/le_cpu_dispatch.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/logical_or_cpu_dispatch.h>
#include <ATen/ops/lt_cpu_dispatch.h>

#include <limits>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

bool wide_unsigned(at::ScalarType type) { return type == at::kUInt16 || type == at::kUInt32 || type == at::kUInt64; }

template <class Other>
Tensor compared(Than than, const Tensor& self, const Other& other) {
  if (than == Than::kLess) return at::cpu::lt(self, other);
  if (than == Than::kLessOrEqual) return at::cpu::le(self, other);
  return than == Than::kGreater ? at::cpu::gt(self, other) : at::cpu::ge(self, other);
}

template <class Other>
void compared_into(Than than, const Tensor& self, const Other& other, Tensor& out) {
  if (than == Than::kLess) return void(at::cpu::lt_outf(self, other, out));
  if (than == Than::kLessOrEqual) return void(at::cpu::le_outf(self, other, out));
  than == Than::kGreater ? at::cpu::gt_outf(self, other, out) : at::cpu::ge_outf(self, other, out);
}

// Of uint64 and a whole number: numbers that the type does not hold are past its ends.
Tensor compared_whole(Than than, const Tensor& self, const Scalar& other) {
  const bool negative = !other.isUnsigned() && other.toLong() < 0, greater = than >= Than::kGreater;
  if (negative) return at::full(self.sizes(), greater, self.options().dtype(at::kBool));
  const uint64_t number = other.isUnsigned() ? other.toUInt64() : static_cast<uint64_t>(other.toLong());
  const auto shifted = static_cast<int64_t>(number ^ (uint64_t{1} << 63));  // as `ordered` has it
  return compared(than, ordered(self), Scalar(shifted));
}

}  // namespace

void compare(Than than, const Tensor& self, const Tensor& other, Tensor& out) {
  const bool plain = !wide_unsigned(self.scalar_type()) && !wide_unsigned(other.scalar_type());
  if (plain && !wide_unsigned(out.scalar_type())) return compared_into(than, self, other, out);
  if (self.scalar_type() == other.scalar_type()) return put(out, compared(than, ordered(self), ordered(other)));
  put(out, compared(than, self.to(at::kDouble), other.to(at::kDouble)));
}

void compare(Than than, const Tensor& self, const Scalar& other, Tensor& out) {
  const at::ScalarType type = self.scalar_type();
  if (!wide_unsigned(type) && !wide_unsigned(out.scalar_type())) return compared_into(than, self, other, out);
  if (type != at::kUInt64) return put(out, compared(than, ordered(self), other));
  put(out, other.isFloatingPoint() ? compared(than, self.to(at::kDouble), other) : compared_whole(than, self, other));
}

void either_true(const Tensor& self, const Tensor& other, Tensor& out) {
  if (wide_unsigned(out.scalar_type())) return put(out, at::logical_or(self, other));
  at::cpu::logical_or_outf(self, other, out);
}

}  // namespace softnpu::ops::kernels
