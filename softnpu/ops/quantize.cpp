// See quantize.h. Integer sums are exact, in fp64.
#include "softnpu/ops/quantize.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>

#include <limits>

#include <algorithm>

#include "softnpu/ops/group_ends.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {
namespace {

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
    const Tensor ends = longs(*groups).contiguous();  // whole numbers in any type, 16-bit floats among them
    need_running(ends, value.numel() / std::max<int64_t>(value.size(-1), 1));
    const Tensor row = at::arange(value.numel() / std::max<int64_t>(value.size(-1), 1), ends.options());
    const Tensor group = at::searchsorted(ends, row, false, /*right=*/true).clamp_max(smooth->size(0) - 1);
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
  Tensor value = wide(x.scalar_type() == at::kInt ? int4_values(x, x.dim() - 1) : x);
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
  const auto factor = [](const Tensor& t, bool turned) {
    TORCH_CHECK(t.scalar_type() == at::kChar || t.scalar_type() == at::kInt, "aclnnQuantMatmul: operands of ",
                t.scalar_type(), " are not implemented");
    const Tensor values = (t.scalar_type() == at::kInt ? int4_values(t) : t).to(at::kDouble);
    return turned ? values.transpose(-1, -2) : values;
  };
  Tensor value = at::matmul(factor(a, transpose_a), factor(b, transpose_b));
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

void need_weight_product(const Tensor& x, const Tensor& weight, const Tensor& scale, const OptionalTensor& offset,
                         const OptionalTensor& quant_scale, int64_t group, const Tensor& out) {
  const std::vector<int64_t> w = low_sizes(weight, true);
  TORCH_CHECK(w.size() == 2 && x.dim() == 2 && x.size(1) == w[0], "x of ", x.sizes(), " and weight of ", IntArrayRef(w),
              " have no product");
  const int64_t inner = w[0], columns = w[1], groups = group > 0 ? (inner + group - 1) / group : 1;
  need_size(out, {x.size(0), columns}, "y");
  const at::ScalarType type = weight.scalar_type();
  const bool whole = type == at::kChar || type == at::kInt, four = !whole && !small_float(type);
  const bool powers = scale.scalar_type() == at::kFloat8_e8m0fnu;
  TORCH_CHECK(!powers || (four && group == 32),
              "antiquantScale of float8_e8m0fnu goes with a weight of 4-bit floats and groups of 32");
  TORCH_CHECK(whole || !passed(offset), "antiquantOffset does not go with a weight of ", type);
  TORCH_CHECK(!small_float(type) || group == 0, "antiquantGroupSize is ", group, " with a weight of ", type);
  const bool each = scale.numel() == columns * groups;
  TORCH_CHECK(each || (!powers && (scale.numel() == columns || scale.numel() == 1)), "antiquantScale has the sizes ",
              scale.sizes(), " for a weight of ", IntArrayRef(w), " in ", groups, " groups");
  TORCH_CHECK(!passed(offset) || offset->numel() == scale.numel(),
              "antiquantOffset has not as many numbers as antiquantScale");
  const bool bits = wide_bits(scale);
  TORCH_CHECK(!bits || (x.scalar_type() == at::kHalf && type == at::kChar && group == 0 && !passed(quant_scale)),
              "antiquantScale of ", scale.scalar_type(),
              " goes with x of float16, a weight of int8, no groups and no quantScale");
  TORCH_CHECK(!passed(offset) || offset->scalar_type() != at::kInt || bits,
              "antiquantOffset of int32 goes with antiquantScale of int64 or uint64");
}

void weight_quant_matmul(const Tensor& x, const Tensor& weight, const Tensor& scale, const OptionalTensor& offset,
                         const OptionalTensor& quant_scale, const OptionalTensor& quant_offset,
                         const OptionalTensor& bias, int64_t group, Tensor& out) {
  const Tensor w = low_values(weight, true);
  const int64_t k = w.size(0), n = w.size(1);
  const auto by_group = [&](const Tensor& t) {
    const Tensor value = wide_bits(t) ? plain_scale(t) : wide(t);
    if (group <= 0 || t.numel() <= n) return value.numel() == 1 ? value.reshape({}) : value.reshape({1, n});
    return value.reshape({-1, n}).repeat_interleave(group, 0).narrow(0, 0, k);
  };
  Tensor value = w;
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
