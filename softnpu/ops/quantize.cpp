// Quantization to 8-bit integers and back, and products of quantized operands. Integer sums are exact, in fp64.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <limits>

#include <algorithm>

#include "softnpu/ops/group_ends.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {
namespace {

// Eight 4-bit integers of an int32, the lowest bits first, along `dim`.
Tensor unpacked(const Tensor& packed, int64_t dim) {
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 8; i++) {
    const Tensor nibble = packed.to(at::kLong).__rshift__(4 * i).bitwise_and(15);
    parts.push_back(at::where(nibble.ge(8), nibble - 16, nibble));
  }
  return at::stack(parts, dim + 1).flatten(dim, dim + 1);
}

// aclnnTransQuantParam's 64 bits hold a float's upper bits in their lower half.
Tensor plain_scale(const Tensor& scale) {
  if (scale.scalar_type() != at::kLong && scale.scalar_type() != at::kUInt64) return scale.to(at::kFloat);
  const Tensor bits =
      (scale.scalar_type() == at::kLong ? scale : scale.view(at::kLong)).bitwise_and(0xFFFFE000).to(at::kInt);
  return bits.view(at::kFloat);
}

}  // namespace

void dynamic_quant(const Tensor& x, const OptionalTensor& smooth, const OptionalTensor& groups, Tensor& y,
                   Tensor& scale, Tensor& offset) {
  TORCH_CHECK(x.dim() > 0 && (x.size(-1) > 0 || x.numel() == 0), "x must have columns, got sizes ", x.sizes());
  Tensor value = wide(x);
  if (passed(smooth) && passed(groups)) {
    need_running(*groups, value.numel() / std::max<int64_t>(value.size(-1), 1));
    const Tensor row = at::arange(value.numel() / std::max<int64_t>(value.size(-1), 1), groups->options());
    const Tensor group =
        at::searchsorted(groups->contiguous(), row, false, /*right=*/true).clamp_max(smooth->size(0) - 1);
    value = value * wide(*smooth).index_select(0, group).reshape(value.sizes());
  } else if (passed(smooth)) {
    value = value * wide(*smooth);
  }
  Tensor step, shift;
  if (offset.defined()) {
    const Tensor high = value.amax(-1, true);
    const double most = largest_of(y, value);
    step = (high - value.amin(-1, true)) / (most - lowest_of(y, value));
    shift = at::where(step.eq(0), num(0.0), most - high / step);
    put(offset, shift.squeeze(-1));
  } else {
    step = value.abs().amax(-1, true) / largest_of(y, value);
  }
  const Tensor scaled = value / step.masked_fill(step.eq(0), 1);
  put_rounded(y, shift.defined() ? scaled + shift : scaled);
  put(scale, step.squeeze(-1));
}

void quantize(const Tensor& x, const Tensor& scale, const OptionalTensor& offset, int64_t axis, bool divide,
              Tensor& out) {
  const auto along = [&](const Tensor& t) {
    if (t.numel() == 1) return wide(t).reshape({});
    std::vector<int64_t> shape(x.dim(), 1);
    shape.at(at::maybe_wrap_dim(axis, x.dim())) = t.numel();
    return wide(t).reshape(shape);
  };
  Tensor value = divide ? wide(x) / along(scale) : wide(x) * along(scale);
  if (divide && at::isIntegralType(out.scalar_type(), false)) value.round_();
  if (passed(offset)) value = value + along(*offset);
  put_rounded(out, value);
}

void anti_quant(const Tensor& x, const Tensor& scale, const OptionalTensor& offset, bool square, Tensor& out) {
  Tensor value = wide(x.scalar_type() == at::kInt ? unpacked(x, x.dim() - 1) : x);
  if (passed(offset)) value = value + wide(*offset);
  value = value * wide(scale);
  put(out, square ? value * wide(scale) : value);
}

void quant_param(const Tensor& scale, const OptionalTensor& offset, Tensor& out) {
  Tensor bits = scale.to(at::kFloat)
                    .contiguous()
                    .view(at::kInt)
                    .to(at::kLong)
                    .bitwise_and(0xFFFFE000)
                    .bitwise_or(int64_t{1} << 46);
  if (passed(offset)) {
    const Tensor shift =
        offset->to(at::kFloat).round().clamp_(-256, 255).to(at::kLong).bitwise_and(0x1FF).__lshift__(37);
    bits = bits.bitwise_and(0x4000FFFFFFFF).bitwise_or(shift);
  }
  put(out, out.scalar_type() == at::kUInt64 ? bits.view(at::kUInt64) : bits);
}

void quant_matmul(const Tensor& a, const Tensor& b, const OptionalTensor& row_scale, const Tensor& scale,
                  const OptionalTensor& offset, const OptionalTensor& bias, bool transpose_a, bool transpose_b,
                  Tensor& out) {
  for (const Tensor* t : {&a, &b}) {
    TORCH_CHECK(t->scalar_type() == at::kChar, "aclnnQuantMatmul: operands of ", t->scalar_type(),
                " are not implemented");
  }
  const Tensor left = transpose_a ? a.transpose(-1, -2) : a, right = transpose_b ? b.transpose(-1, -2) : b;
  Tensor value = at::matmul(left.to(at::kDouble), right.to(at::kDouble));
  const bool first = passed(bias) && bias->scalar_type() == at::kInt;  // an integer bias is added before the scale
  if (first) value = value + bias->to(at::kDouble);
  if (out.scalar_type() == at::kInt) {
    put(out, value);
    return;
  }
  value = value * plain_scale(scale).to(at::kDouble);
  if (passed(row_scale)) value = value * row_scale->to(at::kDouble).unsqueeze(-1);
  if (passed(bias) && !first) value = value + bias->to(at::kDouble);
  if (passed(offset)) value = value + offset->to(at::kDouble);
  if (out.scalar_type() == at::kChar) {
    put_rounded(out, value);
  } else {
    put(out, value);
  }
}

void weight_quant_matmul(const Tensor& x, const Tensor& weight, const Tensor& scale, const OptionalTensor& offset,
                         const OptionalTensor& quant_scale, const OptionalTensor& quant_offset,
                         const OptionalTensor& bias, int64_t group, Tensor& out) {
  Tensor w = weight;
  if (weight.scalar_type() == at::kInt) w = unpacked(weight, weight.stride(0) == 1 && weight.stride(1) != 1 ? 0 : 1);
  const int64_t k = w.size(0), n = w.size(1);
  const auto by_group = [&](const Tensor& t) {
    const Tensor value = wide(t);
    if (group <= 0 || t.numel() <= n) return value.numel() == 1 ? value.reshape({}) : value.reshape({1, n});
    return value.reshape({-1, n}).repeat_interleave(group, 0).narrow(0, 0, k);
  };
  Tensor value = wide(w);
  if (passed(offset)) value = value + by_group(*offset);
  const Tensor left = wide(x);
  Tensor result = at::matmul(left, (value * by_group(scale)).to(left.scalar_type()));
  if (passed(bias)) result = result + wide(*bias);
  if (!passed(quant_scale)) {
    put(out, result);
    return;
  }
  result = result * plain_scale(*quant_scale);
  put_rounded(out, passed(quant_offset) ? result + wide(*quant_offset) : result);
}

void fake_quantize(const Tensor& x, const Tensor& scale, const Tensor& zero_point, bool enabled, int64_t low,
                   int64_t high, Tensor& out, Tensor& mask) {
  const Tensor on = at::full({1}, enabled, at::kLong);
  put2(out, mask,
       at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, scale.to(at::kFloat), zero_point.to(at::kInt),
                                                                     on, low, high));
}

}  // namespace softnpu::ops::kernels
