// Operators of two tensors, element by element, that CANN has no function for; and what all compositions use.
// Who calls it: rows of ops/aten.yaml, which give both operands in their common type.
#include "csrc/ops/composed/composed.h"

#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/result_type.h>

#include "csrc/core/device.h"

namespace npu {

at::Tensor on_device(const at::Tensor& self) {
  return self.is_privateuseone() ? self : self.to(at::Device(c10::DeviceType::PrivateUse1, current_device()));
}

at::Tensor wide(const at::Tensor& self) {
  return on_device(self).to(self.is_complex() ? at::kComplexDouble : at::kDouble);
}

std::pair<at::Tensor, at::Tensor> broadcast(const at::Tensor& a, const at::Tensor& b) {
  const std::vector<int64_t> sizes = at::infer_size(a.sizes(), b.sizes());
  return {a.expand(sizes), b.expand(sizes)};
}

at::Tensor where(const at::Tensor& condition, const at::Tensor& yes, const at::Tensor& no) {
  return yes.where(condition, no);
}
at::Tensor where(const at::Tensor& condition, const at::Tensor& yes, double no) {
  return yes.masked_fill(condition.logical_not(), no);
}
at::Tensor where(const at::Tensor& condition, double yes, const at::Tensor& no) {
  return no.masked_fill(condition, yes);
}

namespace {

// Operands of at least as many dimensions as there are results, on the device.
std::pair<at::Tensor, at::Tensor> both(const at::Tensor& self, const at::Tensor& other) {
  return {on_device(self), on_device(other)};
}

at::ScalarType bits_of(at::ScalarType type) {
  switch (c10::elementSize(type)) {
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    default:
      return at::kLong;
  }
}

// NaN loses against a number.
at::Tensor chosen(const at::Tensor& best, const at::Tensor& a, const at::Tensor& b) {
  if (!best.is_floating_point()) return best;
  return where(a.ne(a), b, where(b.ne(b), a, best));
}

}  // namespace

at::Tensor fmax(const at::Tensor& self, const at::Tensor& other) {
  const auto [a, b] = both(self, other);
  return chosen(a.maximum(b), a, b);
}

at::Tensor fmin(const at::Tensor& self, const at::Tensor& other) {
  const auto [a, b] = both(self, other);
  return chosen(a.minimum(b), a, b);
}

at::Tensor copysign(const at::Tensor& self, const at::Tensor& other) {
  const auto [a, b] = both(self, other);
  const at::Tensor size = (a.is_floating_point() ? a : a.to(at::kDouble)).abs();
  return where(b.signbit(), size.neg(), size);
}

at::Tensor hypot(const at::Tensor& self, const at::Tensor& other) {
  const at::Tensor a = wide(self).abs(), b = wide(other).abs();
  const at::Tensor large = a.maximum(b), ratio = a.minimum(b).div(large);
  const at::Tensor length = large.mul(ratio.square().add(1).sqrt());
  const at::Tensor plain = large.eq(0).logical_or(large.eq(INFINITY));
  return where(a.eq(INFINITY).logical_or(b.eq(INFINITY)), INFINITY, where(plain, large, length));
}

// Floating-point numbers of one sign are in the order of their bits.
at::Tensor nextafter(const at::Tensor& self, const at::Tensor& other) {
  const auto [a, b] = both(self, other);
  const at::ScalarType type = a.scalar_type(), bits = bits_of(type);
  const at::Tensor from = broadcast(a, b).first.contiguous();
  const at::Tensor up = b.gt(from).logical_xor(from.lt(0));  // away from zero
  const at::Tensor stepped = from.view(bits).add(up.to(bits).mul(2).sub(1)).view(type);
  const at::Tensor least = at::Tensor(from.new_empty({})).view(bits).fill_(1).view(type);
  const at::Tensor from_zero = where(b.lt(0), least.neg().expand_as(from), least.expand_as(from));
  const at::Tensor moved = where(from.eq(0), from_zero, stepped);
  const at::Tensor nan = from.add(b);
  return where(nan.ne(nan).logical_and(from.ne(from).logical_or(b.ne(b))), nan, where(from.eq(b), b, moved));
}

at::Tensor lcm(const at::Tensor& self, const at::Tensor& other) {
  auto [a, b] = both(self, other);
  // The size is taken before the result is cut to a small type, as C++ promotes them.
  if (a.element_size() < 4 && b.element_size() < 4) a = a.to(at::kInt), b = b.to(at::kInt);
  const at::Tensor divisor = a.gcd(b);
  const at::Tensor none = divisor.eq(0);
  return a.div(divisor.masked_fill(none, 1), "trunc").mul(b).abs().masked_fill(none, 0);
}

at::Tensor huber(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  const at::ScalarType type = at::toOpMathType(at::result_type(self, target));
  const at::Tensor distance = on_device(self).to(type).sub(on_device(target).to(type)).abs();
  const at::Tensor near =
      distance.clamp_max(delta);  // near * near / 2 within delta, delta * (distance - delta / 2) beyond
  const at::Tensor loss = near.mul(distance.sub(near, 0.5));
  return reduction == at::Reduction::Mean ? loss.mean() : reduction == at::Reduction::Sum ? loss.sum() : loss;
}

// One index for a slice becomes one for each of its elements.
at::Tensor index_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                        c10::string_view reduce, bool include_self) {
  if (index.numel() == 0) return self;
  const at::Tensor x = self.dim() ? self : self.unsqueeze(0), values = source.dim() ? source : source.unsqueeze(0);
  const int64_t along = self.dim() ? at::maybe_wrap_dim(dim, self.dim()) : 0;
  std::vector<int64_t> shape(x.dim(), 1);
  shape[along] = -1;
  const at::Tensor each = index.to(at::kLong).reshape(shape).expand(values.sizes());
  return x.scatter_reduce(along, each, values, reduce, include_self).reshape(self.sizes());
}

}  // namespace npu
