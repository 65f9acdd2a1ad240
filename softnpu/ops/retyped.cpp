// See retyped.h.
#include "softnpu/ops/retyped.h"

#include <ATen/native/TypeProperties.h>
#include <ATen/ops/_cdist_backward.h>
#include <ATen/ops/_cdist_forward.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/abs_cpu_dispatch.h>
#include <ATen/ops/addcdiv_cpu_dispatch.h>
#include <ATen/ops/addmv_cpu_dispatch.h>
#include <ATen/ops/any.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/atan2_cpu_dispatch.h>
#include <ATen/ops/bitwise_left_shift_cpu_dispatch.h>
#include <ATen/ops/bitwise_right_shift_cpu_dispatch.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumprod_cpu_dispatch.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/floor_divide_cpu_dispatch.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardsigmoid_cpu_dispatch.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/hardtanh_cpu_dispatch.h>
#include <ATen/ops/isin_cpu_dispatch.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logaddexp2.h>
#include <ATen/ops/logaddexp2_cpu_dispatch.h>
#include <ATen/ops/logaddexp_cpu_dispatch.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/max_unpool2d.h>
#include <ATen/ops/max_unpool3d.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mean_cpu_dispatch.h>
#include <ATen/ops/mse_loss_backward_cpu_dispatch.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/result_type_native.h>
#include <ATen/ops/round_cpu_dispatch.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sub_cpu_dispatch.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/xlogy_cpu_dispatch.h>

#include <algorithm>

namespace softnpu::ops::kernels {
namespace {

bool is_bool(const Tensor& t) { return t.scalar_type() == at::kBool; }
bool whole(at::ScalarType type) { return at::isIntegralType(type, /*includeBool=*/true); }
bool wide_unsigned(at::ScalarType type) { return type == at::kUInt16 || type == at::kUInt32 || type == at::kUInt64; }
bool wide_unsigned(const Tensor& t) { return wide_unsigned(t.scalar_type()); }

at::ScalarType common_type(const Tensor& a, const Tensor& b, const Tensor& c) {
  const auto two = at::native::update_result_type_state(b, at::native::update_result_type_state(a, {}));
  return at::native::result_type(at::native::update_result_type_state(c, two));
}

// The numbers that an operator is computed with; the result is truth again where the common type is.
at::ScalarType computed(at::ScalarType common) { return common == at::kBool ? at::kInt : common; }
void put_common(Tensor& out, const Tensor& result, at::ScalarType common) {
  TORCH_CHECK(at::canCast(common, out.scalar_type()), "result type ", common,
              " can't be cast to the desired output type ", out.scalar_type());
  put(out, common == at::kBool ? result.to(at::kBool) : result);
}

// Modulo the range of the integers' type, which no conversion of ATen's leaves to chance.
Tensor in_64_bits(const Tensor& t) { return t.to(at::kLong); }

}  // namespace

void subtract(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  if (!is_bool(self) && !is_bool(other)) return void(at::cpu::sub_outf(self, other, alpha, out));
  const at::ScalarType common = at::result_type(self, other), type = computed(common);
  const Scalar factor = alpha.isBoolean() ? Scalar(int64_t{alpha.toBool()}) : alpha;
  put_common(out, at::sub(self.to(type), other.to(type), factor), common);
}

void arctangent(const Tensor& self, const Tensor& other, Tensor& out) {
  if (!whole(out.scalar_type())) return void(at::cpu::atan2_outf(self, other, out));
  put(out, at::atan2(self.to(at::kDouble), other.to(at::kDouble)));
}

void x_log_y(const Tensor& self, const Tensor& other, Tensor& out) {
  if (!whole(out.scalar_type())) return void(at::cpu::xlogy_outf(self, other, out));
  put(out, at::xlogy(self.to(at::kDouble), other.to(at::kDouble)));
}

void floor_divide(const Tensor& self, const Tensor& other, Tensor& out) {
  const at::ScalarType common = at::result_type(self, other);
  if (common != at::kBool) return void(at::cpu::floor_divide_outf(self, other, out));
  put_common(out, at::floor_divide(self.to(at::kInt), other.to(at::kInt)), common);
}

void addmv(const Tensor& self, const Tensor& matrix, const Tensor& vector, const Scalar& beta, const Scalar& alpha,
           Tensor& out) {
  const at::ScalarType common = common_type(self, matrix, vector);
  // Of booleans alone the numbers beside them decide, and the result's type is what they make together.
  const at::ScalarType type = common == at::kBool ? out.scalar_type() : common;
  const auto as = [&](const Tensor& t) { return widen(t.to(type)); };
  put(out, at::cpu::addmv(as(self).expand_as(out), as(matrix), as(vector), beta, alpha));
}

void mse_loss_backward(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction,
                       Tensor& out) {
  const at::ScalarType type = common_type(gradient, self, target);
  const auto as = [type](const Tensor& t) { return t.to(type); };
  if (out.scalar_type() == type)
    return void(at::cpu::mse_loss_backward_outf(as(gradient), as(self), as(target), reduction, out));
  TORCH_CHECK(at::canCast(type, out.scalar_type()), "result type ", type, " can't be cast to the desired output type ",
              out.scalar_type());
  put(out, at::cpu::mse_loss_backward(as(gradient), as(self), as(target), reduction));
}

void hardtanh(const Tensor& self, const Scalar& low, const Scalar& high, Tensor& out) {
  if (!is_bool(self)) return void(at::cpu::hardtanh_outf(self, low, high, out));
  put(out, at::hardtanh(self.to(at::kFloat), low, high));
}

void is_in(const Tensor& self, const Scalar& number, bool invert, Tensor& out) {
  if (!is_bool(self) && !self.is_complex()) return void(at::cpu::isin_outf(self, number, false, invert, out));
  put(out, invert ? at::ne(self, number) : at::eq(self, number));
}

void is_in(const Scalar& number, const Tensor& numbers, bool invert, Tensor& out) {
  if (out.dim() == numbers.dim()) return is_in(numbers, number, invert, out);
  if (!is_bool(numbers) && !numbers.is_complex() && !wide_unsigned(numbers)) {
    return void(at::cpu::isin_outf(number, numbers, false, invert, out));
  }
  const Tensor found = at::any(at::eq(numbers, number));
  put(out, invert ? found.logical_not() : found);
}

void magnitude(const Tensor& self, Tensor& out) {
  const at::ScalarType type = self.scalar_type();
  if (type == at::kComplexHalf) return put(out, at::abs(self.to(at::kComplexFloat)));
  if (type == at::kBool) return put(out, self);
  if (out.scalar_type() == c10::toRealValueType(type)) return void(at::cpu::abs_outf(self, out));
  put(out, at::abs(self));
}

namespace {

// (self·b + value·a) / b, in 128 bits: one quotient, so that its fraction is cut off once.
int64_t with_quotient(int64_t self, int64_t a, int64_t b, int64_t value) {
  TORCH_CHECK(b != 0, "ZeroDivisionError");
  return static_cast<int64_t>((static_cast<__int128>(self) * b + static_cast<__int128>(value) * a) / b);
}

}  // namespace

void addcdiv(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out) {
  if (!whole(a.scalar_type()) || !whole(b.scalar_type())) {
    return void(at::cpu::addcdiv_outf(self, a, b, value, out));
  }
  const at::ScalarType common = common_type(self, a, b);
  if (!whole(common)) return void(at::cpu::addcdiv_outf(self, a.to(common), b.to(common), value, out));
  const auto as = [&](const Tensor& t) { return in_64_bits(t).expand(out.sizes()).contiguous(); };
  const Tensor x = as(self), y = as(a), z = as(b);
  const auto *p = x.const_data_ptr<int64_t>(), *q = y.const_data_ptr<int64_t>(), *r = z.const_data_ptr<int64_t>();
  Tensor result = at::empty(out.sizes(), x.options());
  auto* to = result.mutable_data_ptr<int64_t>();
  const auto factor = value.to<int64_t>();
  for (int64_t i = 0; i < result.numel(); i++) to[i] = with_quotient(p[i], q[i], r[i], factor);
  put(out, result.to(common));
}

void need_mean(const Tensor& self, at::ScalarType type, const Tensor& out) {
  TORCH_CHECK(whole(self.scalar_type()) || (!whole(type) && !whole(out.scalar_type())), "result type ",
              self.scalar_type(), " can't be cast to the desired output type ", whole(type) ? type : out.scalar_type());
}

void mean(const Tensor& self, IntArrayRef dims, bool keep, at::ScalarType type, Tensor& out) {
  if (!whole(type)) {
    if (type == out.scalar_type()) return void(at::cpu::mean_outf(self, some_dims(dims), keep, some(type), out));
    return put(out, at::mean(self, some_dims(dims), keep, some(type)));
  }
  const Tensor sum = at::sum(self.to(type), some_dims(dims), keep, some(at::kLong));
  if (sum.numel() == 0) return;
  put(out, at::div(sum, num(Scalar(self.numel() / sum.numel())), "trunc").to(type));
}

namespace {

int64_t rounded_to(int64_t x, __int128 unit) {
  const __int128 quotient = x / unit, rest = x % unit, twice = rest < 0 ? -2 * rest : 2 * rest;
  const bool away = twice > unit || (twice == unit && quotient % 2 != 0);
  return static_cast<int64_t>((quotient + (away ? (x < 0 ? -1 : 1) : 0)) * unit);
}

}  // namespace

void round_decimals(const Tensor& self, int64_t decimals, Tensor& out) {
  if (!whole(self.scalar_type())) return void(at::cpu::round_outf(self, decimals, out));
  if (decimals >= 0) return put(out, self);
  __int128 unit = 1;
  for (int64_t i = std::max<int64_t>(decimals, -20); i < 0; i++) unit *= 10;  // beyond, all are zero
  Tensor numbers = in_64_bits(self).clone(at::MemoryFormat::Contiguous);
  auto* x = numbers.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < numbers.numel(); i++) x[i] = rounded_to(x[i], unit);
  put(out, numbers);
}

void hardsigmoid(const Tensor& self, Tensor& out) {
  if (!whole(self.scalar_type())) return void(at::cpu::hardsigmoid_outf(self, out));
  put(out, at::hardsigmoid(self.to(at::kDouble)));
}

void shift(Shift way, const Tensor& self, const Tensor& bits, Tensor& out) {
  const bool left = way == Shift::kLeft;
  if (!wide_unsigned(self) && !wide_unsigned(bits)) {
    left ? at::cpu::bitwise_left_shift_outf(self, bits, out) : at::cpu::bitwise_right_shift_outf(self, bits, out);
    return;
  }
  const at::ScalarType common = at::result_type(self, bits);
  const auto as = [&](const Tensor& t) { return in_64_bits(t.to(common)).expand(out.sizes()).contiguous(); };
  const Tensor x = as(self), y = as(bits);
  Tensor result = at::empty(out.sizes(), x.options());
  const auto *p = x.const_data_ptr<int64_t>(), *q = y.const_data_ptr<int64_t>();
  auto* to = result.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < result.numel(); i++) {
    const auto number = static_cast<uint64_t>(p[i]), by = static_cast<uint64_t>(q[i]);
    const uint64_t moved = by > 63 ? 0 : left ? number << by : number >> by;
    to[i] = static_cast<int64_t>(moved);
  }
  put(out, result.to(common));
}

void cumprod(const Tensor& self, int64_t dim, at::ScalarType type, Tensor& out) {
  if (!wide_unsigned(self) && !wide_unsigned(type) && !wide_unsigned(out)) {
    return void(at::cpu::cumprod_outf(self, dim, some(type), out));
  }
  const Tensor x = self.to(type);
  put(out, wide_unsigned(type) ? at::cumprod(in_64_bits(x), dim).to(type) : at::cumprod(x, dim, some(type)));
}

void log_add_exp(bool of_two, const Tensor& self, const Tensor& other, Tensor& out) {
  const bool two = whole(self.scalar_type()) && whole(other.scalar_type());
  if (!two && !wide_unsigned(self) && !wide_unsigned(other)) {
    of_two ? at::cpu::logaddexp2_outf(self, other, out) : at::cpu::logaddexp_outf(self, other, out);
    return;
  }
  const auto as = [](const Tensor& t) { return whole(t.scalar_type()) ? t.to(at::kDouble) : t; };
  put(out, of_two ? at::logaddexp2(as(self), as(other)) : at::logaddexp(as(self), as(other)));
}

void need_spectrum(const Tensor& self, bool onesided, bool returns_complex, const Tensor& out) {
  TORCH_CHECK(out.is_complex() == returns_complex, "returnComplex is ", returns_complex, " for out of ",
              out.scalar_type());
  TORCH_CHECK(!onesided || !self.is_complex(), "onesided goes with real signals");
}

Tensor cdist_backward(const Tensor& gradient, const Tensor& x1, const Tensor& x2, double p, const Tensor& distances) {
  if (!is_16_bit(x1)) return at::_cdist_backward(gradient, x1, x2, p, distances);
  // Whose difference is the largest cannot be told from distances that were rounded.
  const Tensor a = x1.to(at::kFloat), b = x2.to(at::kFloat);
  return at::_cdist_backward(gradient.to(at::kFloat), a, b, p, at::_cdist_forward(a, b, p, 2));
}

namespace {

template <class Unpool>
void unpool(const Tensor& self, Tensor& out, const Unpool& body) {
  if (!whole(self.scalar_type())) return put(out, body(self));
  put(out, body(in_64_bits(self).view(at::kDouble)).view(at::kLong));
}

}  // namespace

void max_unpool2d(const Tensor& self, const Tensor& indices, IntArrayRef size, Tensor& out) {
  unpool(self, out, [&](const Tensor& x) { return at::max_unpool2d(x, longs(indices), size); });
}

void max_unpool3d(const Tensor& self, const Tensor& indices, IntArrayRef size, IntArrayRef stride, IntArrayRef padding,
                  Tensor& out) {
  unpool(self, out, [&](const Tensor& x) { return at::max_unpool3d(x, longs(indices), size, stride, padding); });
}

}  // namespace softnpu::ops::kernels
