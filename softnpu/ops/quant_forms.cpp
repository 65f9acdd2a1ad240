// See quant_forms.h.
#include "softnpu/ops/quant_forms.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>

#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/quantize.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {
namespace {

Tensor in_mode(const char* op, const Tensor& t, std::string_view mode) {
  if (mode == "floor") return t.floor();
  if (mode == "ceil") return t.ceil();
  if (mode == "trunc") return t.trunc();
  TORCH_CHECK(mode == "round" || mode == "rint" || mode.empty(), op, ": roundMode ", mode,
              " is not round, rint, floor, ceil or trunc");
  return t.round();
}

// Smooth scales: one a column, or a row of them for each group of rows; where columns are quantized one a row.
Tensor smoothed(const Tensor& x, const OptionalTensor& smooth, const OptionalTensor& groups, bool channel) {
  const Tensor value = wide(x);
  if (!given(smooth)) return value;
  if (channel) {
    TORCH_CHECK(smooth->dim() == 1 && smooth->size(0) == x.size(-2), "aclnnDynamicQuant: smoothScales is ",
                smooth->sizes(), " for ", x.size(-2), " rows");
    return value * wide(*smooth).unsqueeze(-1);
  }
  TORCH_CHECK(smooth->size(-1) == x.size(-1), "aclnnDynamicQuant: smoothScales is ", smooth->sizes(), " for ",
              x.size(-1), " columns");
  if (!given(groups)) return value * wide(*smooth);
  TORCH_CHECK(smooth->dim() == 2 && smooth->size(0) == groups->numel(), "aclnnDynamicQuant: smoothScales is ",
              smooth->sizes(), " for ", groups->numel(), " groups");
  const Tensor row = at::arange(value.numel() / std::max<int64_t>(value.size(-1), 1), groups->options());
  const Tensor group =
      at::searchsorted(groups->contiguous(), row, false, /*right=*/true).clamp_max(smooth->size(0) - 1);
  return value * wide(*smooth).index_select(0, group).reshape(value.sizes());
}

void need_type(const char* op, int64_t number, const Tensor& y) {
  const auto of = [&](at::ScalarType type) { return y.scalar_type() == type; };
  const bool fits = number == 2    ? of(at::kChar)
                    : number == 4  ? of(at::kByte)
                    : number == 34 ? of(kHifloat8)
                    : number == 35 ? of(at::kFloat8_e5m2)
                    : number == 36 ? of(at::kFloat8_e4m3fn)
                                   : (number == 3 || number == 29) && of(at::kInt);
  TORCH_CHECK(fits, op, ": dstType ", number, " is not implemented for y of ", y.scalar_type());
}

}  // namespace

void static_quant(const Tensor& x, const Tensor& scale, const OptionalTensor& offset, const StaticForm& form,
                  Tensor& y) {
  need_type("aclnnAscendQuant", form.type, y);
  if (is_hifloat8(y)) need_hifloat8(form.rounding, form.type);
  const auto along = [&](const Tensor& t) {
    if (t.numel() == 1) return wide(t).reshape({});
    if (t.dim() != 1) return wide(t);
    std::vector<int64_t> sizes(x.dim(), 1);
    sizes.at(at::maybe_wrap_dim(form.axis, x.dim())) = t.numel();
    return wide(t).reshape(sizes);
  };
  Tensor value = wide(x) * along(scale);
  if (form.twice) value = value * along(scale);
  if (passed(offset)) value = value + along(*offset);
  const bool whole = at::isIntegralType(y.scalar_type(), false);
  put_rounded(y, whole ? in_mode("aclnnAscendQuant", value, form.rounding) : value);
}

void need_dynamic_form(const Tensor& x, int64_t type, const Tensor& y, double largest) {
  const bool eight = y.scalar_type() == at::kInt;
  TORCH_CHECK(eight == (type == 3) && is_hifloat8(y) == (type == kAclHifloat8), "dstType is ", type, " for yOut of ",
              y.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(largest == 0 || is_hifloat8(y), "dstTypeMax ", largest,
                              " is not implemented for yOut of ", y.scalar_type(), "; it is 0");
  TORCH_CHECK(largest >= 0 && largest <= kHifloat8Largest, "dstTypeMax ", largest, " is not 0 to ", kHifloat8Largest);
  std::vector<int64_t> sizes = x.sizes().vec();
  if (eight && !sizes.empty()) {
    TORCH_CHECK(sizes.back() % 8 == 0, "x has ", sizes.back(), " columns, no multiple of 8");
    sizes.back() /= 8;
  }
  need_size(y, sizes, "yOut");
}

void dynamic_quant_form(const Tensor& x, const OptionalTensor& smooth, const OptionalTensor& groups,
                        const DynamicForm& form, Tensor& y, Tensor& scale, Tensor& offset) {
  const char* const op = "aclnnDynamicQuant";
  TORCH_CHECK_NOT_IMPLEMENTED(form.type != 29, op, ": dstType ", form.type,
                              " is not implemented; 2 (int8), 3 (eight 4-bit integers), 34 (hifloat8), 35 and 36 ",
                              "(float8) are");
  TORCH_CHECK(x.dim() > 1, op, ": x is ", x.sizes(), ", two dimensions are expected");
  const bool tensor = form.mode == "pertensor", channel = form.mode == "perchannel";
  TORCH_CHECK(tensor || channel || form.mode == "pertoken" || form.mode.empty(), op, ": quantMode ", form.mode,
              " is not pertoken, pertensor or perchannel");
  TORCH_CHECK(!given(groups) || !(tensor || channel), op, ": groupIndex goes with quantMode pertoken, not ", form.mode);
  TORCH_CHECK(form.symmetric || offset.defined(), op, ": offsetOut is needed where isSymmetrical is false");
  if (x.numel() == 0) return;
  const Tensor value = smoothed(x, smooth, groups, channel);
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.dim(); i++) {
    if (tensor || i == x.dim() - (channel ? 2 : 1)) dims.push_back(i);
  }
  const double high = form.largest > 0 ? form.largest : largest_of(y, value);
  const double low = form.largest > 0 ? -form.largest : lowest_of(y, value);
  Tensor step, shift;
  if (form.symmetric) {
    step = value.abs().amax(dims, true).div_(high);
  } else {
    const Tensor top = value.amax(dims, true);
    step = (top - value.amin(dims, true)).div_(high - low);
    shift = at::where(step.eq(0), num(0.0), high - top / step);
  }
  const Tensor scaled = value / step.masked_fill(step.eq(0), 1);
  put_rounded(y, shift.defined() ? scaled + shift : scaled);
  const auto keep = [&](Tensor& out, const char* name, const Tensor& found) {
    TORCH_CHECK(out.numel() == found.numel(), op, ": ", name, " is ", out.sizes(), " for ", found.numel(), " numbers");
    put(out, found.reshape(out.sizes()));
  };
  keep(scale, "scaleOut", step);
  if (shift.defined()) keep(offset, "offsetOut", shift);
}

void quant_param_form(const Tensor& scale, const OptionalTensor& offset, int64_t mode, Tensor& out) {
  TORCH_CHECK(mode == 0 || mode == 1, "aclnnTransQuantParamV3: roundMode ", mode, " is not 0 or 1");
  if (mode == 0) return quant_param(scale, offset, out);
  // Half of what is cut off carries into the bits that stay.
  const Tensor bits = scale.contiguous().view(at::kInt).to(at::kLong) + 0x1000;
  quant_param(bits.bitwise_and(0xFFFFE000).to(at::kInt).view(at::kFloat), offset, out);
}

void gelu_quant(const Tensor& x, const OptionalTensor& scale, const OptionalTensor& offset, const GeluForm& form,
                Tensor& y, Tensor& out_scale) {
  const char* const op = "aclnnGeluQuant";
  TORCH_CHECK(form.approximate == "none" || form.approximate == "tanh", op, ": approximate ", form.approximate,
              " is not none or tanh");
  if (is_hifloat8(y)) {
    need_hifloat8(form.rounding, form.type);
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(form.rounding == "rint", op, ": roundMode ", form.rounding,
                                " is not implemented; rint is");
  }
  const bool fixed = form.mode == "static";
  TORCH_CHECK(fixed || form.mode == "dynamic", op, ": quantMode ", form.mode, " is not static or dynamic");
  TORCH_CHECK(!fixed || given(scale), op, ": inputScale is needed with quantMode static");
  TORCH_CHECK(fixed || !given(offset), op, ": inputOffset goes with quantMode static");
  TORCH_CHECK(x.dim() > (fixed ? 0 : 1) && y.sizes() == x.sizes(), op, ": self is ", x.sizes(), ", y ", y.sizes());
  Tensor value = at::gelu(wide(x), form.approximate);
  if (given(scale)) value = value * wide(*scale);
  if (fixed) return put_rounded(y, given(offset) ? value + wide(*offset) : value);
  if (x.numel() == 0) return;
  const Tensor found = put_dynamic_rows(y, value);
  if (out_scale.defined()) put(out_scale, found.squeeze(-1));
}

void quant_convolution(const Tensor& x, const Tensor& weight, const OptionalTensor& bias, const Tensor& scale,
                       const OptionalTensor& offset, const QuantConvolution& form, Tensor& out) {
  const char* const op = "aclnnQuantConvolution";
  TORCH_CHECK_NOT_IMPLEMENTED(!form.transposed && !given(offset), op, ": transposed and offset are not implemented");
  TORCH_CHECK((x.dim() == 4 || x.dim() == 5) && weight.dim() == x.dim(), op, ": input ", x.sizes(), " and weight ",
              weight.sizes(), " have not four or five dimensions");
  const int64_t channels = weight.size(0);
  TORCH_CHECK(scale.numel() == channels && (!given(bias) || bias->numel() == channels), op, ": scale is ",
              scale.sizes(), " for ", channels, " channels, or bias is not as long");
  std::vector<int64_t> across(x.dim(), 1);
  across[1] = channels;
  TORCH_CHECK(static_cast<int64_t>(form.padding.size()) == x.dim() - 2, op, ": padding is ", form.padding,
              " for an input of ", x.sizes());
  const std::vector<int64_t> none(x.dim() - 2, 0);
  std::vector<int64_t> around;  // the last dimension leads, before and behind
  for (auto pad = form.padding.rbegin(); pad != form.padding.rend(); ++pad) around.insert(around.end(), {*pad, *pad});
  const auto exact = [](const Tensor& t) { return (is_hifloat8(t) ? hifloat8_values(t) : t).to(at::kDouble); };
  const Tensor padded = at::constant_pad_nd(exact(x), around, form.offset_x);
  Tensor y = at::convolution(padded, exact(weight), {}, form.stride, none, form.dilation, false, none, form.groups);
  y = y * scale_values(scale).to(at::kDouble).reshape(across);
  if (given(bias)) y = y + bias->to(at::kDouble).reshape(across);
  TORCH_CHECK(y.sizes() == out.sizes(), op, ": output is ", out.sizes(), ", ", y.sizes(), " is expected");
  small_float(out) ? put_rounded(out, y) : put(out, y);
}

}  // namespace softnpu::ops::kernels
