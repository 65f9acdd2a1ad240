// See pairs.h.
#include "softnpu/ops/pairs.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat_cpu_dispatch.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/real.h>

#include <algorithm>

#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/mx_blocks.h"

namespace softnpu::ops::kernels {
namespace {

// The byte of two elements of this value; -1 where the type has no such number.
int64_t twice(at::ScalarType type, double value) {
  const Tensor numbers = mx::unpacked(at::arange(8).to(at::kByte).view(type)).unflatten(0, {8, 2}).select(1, 0);
  const Tensor found = numbers.eq(std::abs(value)).nonzero();
  if (found.numel() == 0) return -1;
  return (found.item<int64_t>() + (value < 0 ? 8 : 0)) * 17;
}

}  // namespace

void need_last_pairs(const char* name, const Tensor& t) {
  if (!t.defined() || !is_pairs(t) || t.numel() == 0) return;
  TORCH_CHECK(t.dim() > 0 && mx::pair_dim(t) == t.dim() - 1, name, " of ", t.sizes(), " and strides ", t.strides(),
              " has pairs of 4-bit elements along a dimension that is not its last");
}

void need_cast(const Tensor& self, const Tensor& out) {
  const std::vector<int64_t> sizes = mx::sizes_of(self);
  TORCH_CHECK(out.sizes() == at::IntArrayRef(sizes), "out has the sizes ", out.sizes(), ", ", at::IntArrayRef(sizes),
              " are expected");
}

void cast(const Tensor& self, Tensor& out) {
  if (is_hifloat8(self) || is_hifloat8(out)) return put(out, self.is_complex() ? at::real(self) : self);
  at::native::copy_(out, is_pairs(self) ? mx::unpacked(self) : self, false);
}

void need_same_pairs(const Tensor& from, const Tensor& to) {
  TORCH_CHECK(from.scalar_type() == to.scalar_type() && mx::sizes_of(from) == mx::sizes_of(to), "a tensor of ",
              from.scalar_type(), " and ", from.sizes(), " is no copy of one of ", to.scalar_type(), " and ",
              to.sizes());
  TORCH_CHECK(mx::pair_dim(from) == mx::pair_dim(to), "pairs of 4-bit elements lie along two dimensions");
}

void copy_pairs(const Tensor& from, Tensor& to) {
  if (is_hifloat8(to) || is_hifloat8(from)) return put(to, from);
  if (!is_pairs(to)) return void(at::native::copy_(to, from, false));
  put_bits(to, bits(from));
}

void need_prepared(const Tensor& weight, const Tensor& scale, const OptionalTensor& offset, const OptionalTensor& bias,
                   const PreparedFor& product, const Prepared& out) {
  constexpr int64_t kGroup = 32;
  TORCH_CHECK(product.x == at::kFloat8_e4m3fn && product.x_scale == at::kFloat8_e8m0fnu, "xDtype ", product.x,
              " and xScaleDtype ", product.x_scale, ": float8_e4m3fn with scales of float8_e8m0fnu is prepared for");
  TORCH_CHECK(product.group == kGroup, "kGroupSize ", product.group, " is not ", kGroup);
  TORCH_CHECK(!passed(offset) && !out.offset.defined(), "weightOffset is not taken");
  const int64_t dims = weight.dim();
  TORCH_CHECK(dims == 2 || dims == 3, "weight has ", dims, " dimensions, 2 or 3 are expected");
  TORCH_CHECK(mx::pair_dim(weight) == dims - 2, "weight of strides ", weight.strides(), " is not transposed");
  const std::vector<int64_t> sizes = mx::sizes_of(weight);
  const int64_t inner = sizes[static_cast<size_t>(dims - 2)];
  TORCH_CHECK(inner % kGroup == 0, "weight has ", inner, " inner numbers, no multiple of ", kGroup);
  std::vector<int64_t> scales = sizes;
  scales[static_cast<size_t>(dims - 2)] = (inner + 2 * kGroup - 1) / (2 * kGroup);
  scales.push_back(2);
  TORCH_CHECK(scale.sizes() == at::IntArrayRef(scales), "weightScale has the sizes ", scale.sizes(), ", ",
              at::IntArrayRef(scales), " are expected");
  need_same_pairs(weight, out.weight);
  TORCH_CHECK(out.scale.sizes() == scale.sizes(), "outWeightScale has the sizes ", out.scale.sizes(), ", ",
              scale.sizes(), " are expected");
  TORCH_CHECK(passed(bias) == out.bias.defined(), "biasOptional and outBiasOptional are given together");
  TORCH_CHECK(!passed(bias) || bias->sizes() == out.bias.sizes(), "outBiasOptional has other sizes than biasOptional");
}

void copy_prepared(const Tensor& weight, const Tensor& scale, const OptionalTensor& bias, Tensor& out_weight,
                   Tensor& out_scale, Tensor& out_bias) {
  put_bits(out_weight, bits(weight));
  put_bits(out_scale, bits(scale));
  if (passed(bias)) put(out_bias, *bias);
}

void need_joined_pairs(at::TensorList tensors, const Tensor& out) {
  for (const Tensor& t : tensors) {
    if (!t.defined() || t.numel() == 0) continue;
    TORCH_CHECK(t.scalar_type() == out.scalar_type(), "tensors of ", t.scalar_type(), " and a result of ",
                out.scalar_type(), ": 4-bit floats do not mix with other types");
    need_last_pairs("a tensor", t);
  }
  need_last_pairs("out", out);
}

void join(at::TensorList tensors, int64_t dim, Tensor& out) {
  if (std::any_of(tensors.begin(), tensors.end(), is_hifloat8)) {
    std::vector<Tensor> values;
    for (const Tensor& t : tensors) values.push_back(is_hifloat8(t) ? hifloat8_values(t) : t);
    return put(out, at::cpu::cat(values, dim));
  }
  if (is_hifloat8(out)) return put(out, at::cpu::cat(tensors, dim));
  if (!is_pairs(out)) return void(at::cpu::cat_outf(tensors, dim, out));
  std::vector<Tensor> bytes;
  for (const Tensor& t : tensors) bytes.push_back(t.numel() ? bits(t) : t.to(at::kByte));
  Tensor place = bits(out);
  at::cpu::cat_outf(bytes, dim, place);
}

void need_padded_pairs(const Tensor& self, IntArrayRef pad, const Scalar& value, const Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "self is of ", self.scalar_type(), ", out of ",
              out.scalar_type());
  need_last_pairs("self", self);
  need_last_pairs("out", out);
  TORCH_CHECK(pad.size() < 2 || (pad[0] % 2 == 0 && pad[1] % 2 == 0), "pad is ", pad,
              ": of two 4-bit elements in a byte no single one is added to the last dimension");
  TORCH_CHECK(!value.isComplex() && twice(self.scalar_type(), value.toDouble()) >= 0, "value ", value,
              " is no number of ", self.scalar_type());
}

void pad(const Tensor& self, IntArrayRef pad, const Scalar& value, Tensor& out) {
  if (is_hifloat8(self)) return put(out, at::constant_pad_nd(hifloat8_values(self), pad, value));
  if (!is_pairs(self)) return put(out, at::constant_pad_nd(self, pad, value));
  std::vector<int64_t> bytes = pad.vec();
  for (size_t i = 0; i < 2 && i < bytes.size(); i++) bytes[i] /= 2;
  put_bits(out, at::constant_pad_nd(bits(self), bytes, twice(self.scalar_type(), value.toDouble())));
}

}  // namespace softnpu::ops::kernels
