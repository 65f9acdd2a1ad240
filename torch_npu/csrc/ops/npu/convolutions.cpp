// See convolutions.h.
#include "csrc/ops/npu/convolutions.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>

#include "csrc/ops/npu/gradient_of.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

constexpr int64_t kTaps = 3;  // of a causal convolution

struct Geometry {
  c10::SymInt batch, channels, height, width, out_height, out_width;
};

Geometry check_deformation(const char* op, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                           const OptionalTensor& bias, const Deformation& o) {
  need_dims(op, "input", input, {4});
  TORCH_CHECK(o.stride.size() == 4 && o.padding.size() == 4 && o.dilation.size() == 4, op,
              ": stride, padding and dilation have four members, not ", o.stride.size(), ", ", o.padding.size(),
              " and ", o.dilation.size());
  TORCH_CHECK(o.stride[0] == 1 && o.stride[1] == 1 && o.stride[2] > 0 && o.stride[3] > 0, op,
              ": stride is 1, 1 and two positive numbers, not ", o.stride);
  TORCH_CHECK(o.dilation[0] == 1 && o.dilation[1] == 1 && o.dilation[2] > 0 && o.dilation[3] > 0, op,
              ": dilation is 1, 1 and two positive numbers, not ", o.dilation);
  const c10::SymInt channels = input.sym_size(1);
  TORCH_CHECK(o.groups > 0 && o.offset_groups > 0 && channels % o.groups == 0 && channels % o.offset_groups == 0, op,
              ": ", channels, " channels do not divide into ", o.groups, " groups and ", o.offset_groups,
              " deformable_groups");
  need_same_type(op, "input", input, "weight", weight);
  need_same_type(op, "input", input, "offset", offset);
  need_sizes(op, "weight", weight, {-1, channels / o.groups, o.kernel[0], o.kernel[1]});
  need_sizes(op, "bias", bias, {weight.sym_size(0)});
  const auto out = [&](int64_t dim, int64_t pads) {
    return (input.sym_size(dim) + pads - (o.kernel[dim - 2] - 1) * o.dilation[dim] - 1) / o.stride[dim] + 1;
  };
  const Geometry g = {input.sym_size(0),
                      channels,
                      input.sym_size(2),
                      input.sym_size(3),
                      out(2, o.padding[0] + o.padding[1]),
                      out(3, o.padding[2] + o.padding[3])};
  need_sizes(op, "offset", offset,
             {g.batch, o.offset_groups * o.kernel[0] * o.kernel[1] * (o.masked ? 3 : 2), g.out_height, g.out_width});
  return g;
}

// The input at places between its pixels, [batch, channels, out_height * kernel, out_width * kernel]; zero outside.
at::Tensor samples_at(const at::Tensor& x, const at::Tensor& offset, const Geometry& g, const Deformation& o) {
  const c10::SymInt kh = o.kernel[0], kw = o.kernel[1], groups = o.offset_groups, of_group = g.channels / groups;
  const at::Tensor parts =
      offset.reshape_symint({g.batch, o.masked ? 3 : 2, groups, kh, kw, g.out_height, g.out_width});
  const auto places = [&](const c10::SymInt& count, int64_t step) { return at::arange(count, x.options()) * step; };
  const at::Tensor column = places(kw, o.dilation[3]).reshape_symint({kw, 1, 1}) + places(g.out_width, o.stride[3]) -
                            static_cast<double>(o.padding[2]);
  const at::Tensor row = places(kh, o.dilation[2]).reshape_symint({kh, 1, 1, 1}) +
                         places(g.out_height, o.stride[2]).unsqueeze(1) - static_cast<double>(o.padding[0]);
  const at::Tensor across = parts.select(1, 0) + column, down = parts.select(1, 1) + row;
  const at::Tensor left = across.detach().floor(), top = down.detach().floor();
  const at::Tensor dx = across - left, dy = down - top;
  const at::Tensor pixels = x.reshape_symint({g.batch, groups, of_group, g.height * g.width});
  const c10::SymInt count = kh * kw * g.out_height * g.out_width;
  at::Tensor sum;
  for (const int64_t corner : {0, 1, 2, 3}) {
    const bool right = corner & 1, bottom = corner & 2;
    const at::Tensor c = left + static_cast<double>(right), r = top + static_cast<double>(bottom);
    const at::Tensor inside = c.ge(0).logical_and(c.lt(g.width)).logical_and(r.ge(0)).logical_and(r.lt(g.height));
    at::Tensor place = (r.clamp(0, g.height - 1) * g.width + c.clamp(0, g.width - 1)).to(at::kLong);
    place = place.reshape_symint({g.batch, groups, 1, count}).expand_symint({g.batch, groups, of_group, count});
    const at::Tensor share = ((right ? dx : 1 - dx) * (bottom ? dy : 1 - dy)).masked_fill(inside.logical_not(), 0);
    const at::Tensor part = pixels.gather(3, place) * share.reshape_symint({g.batch, groups, 1, count});
    sum = sum.defined() ? sum + part : part;
  }
  if (o.masked) sum = sum * parts.select(1, 2).reshape_symint({g.batch, groups, 1, count});
  return sum.reshape_symint({g.batch, g.channels, kh, kw, g.out_height, g.out_width})
      .permute({0, 1, 4, 2, 5, 3})
      .reshape_symint({g.batch, g.channels, g.out_height * kh, g.out_width * kw});
}

Pair deformed(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset, const OptionalTensor& bias,
              const Geometry& g, const Deformation& o) {
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const at::Tensor samples = samples_at(wide(input), wide(offset), g, o);
  const OptionalTensor b = given(bias) ? OptionalTensor(wide(*bias)) : std::nullopt;
  return {at::conv2d(samples, wide(weight), b, o.kernel, at::IntArrayRef({0, 0}), at::IntArrayRef({1, 1}), o.groups)
              .to(input.scalar_type()),
          samples.to(input.scalar_type())};
}

void check_causal(const char* op, const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& mask) {
  need_dims(op, "input", input, {3});
  need_same_type(op, "input", input, "weight", weight);
  need_sizes(op, "weight", weight, {kTaps, input.sym_size(2)});
  need_type(op, "mask", mask, {at::kBool});
  need_sizes(op, "mask", mask, {input.sym_size(1), input.sym_size(0)});
}

at::Tensor causal(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& mask) {
  const at::Tensor x = at::constant_pad_nd(wide(input), {0, 0, 0, 0, kTaps - 1, 0}), w = wide(weight);
  at::Tensor sum;
  for (int64_t k = 0; k < kTaps; k++) {
    const at::Tensor part = x.slice_symint(0, k, input.sym_size(0) + k) * w.select(0, k);
    sum = sum.defined() ? sum + part : part;
  }
  if (given(mask)) sum = sum.masked_fill(mask->t().logical_not().unsqueeze(2), 0);
  return sum.to(input.scalar_type());
}

}  // namespace

Pair deformable_convolution(const char* op, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& offset,
                            const OptionalTensor& bias, const Deformation& o) {
  return deformed(input, weight, offset, bias, check_deformation(op, input, weight, offset, bias, o), o);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> deformable_convolution_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& samples, const at::Tensor& weight,
    const at::Tensor& offset, const Deformation& o) {
  constexpr const char* kOp = "npu_deformable_conv2dbk";
  const Geometry g = check_deformation(kOp, input, weight, offset, std::nullopt, o);
  need_sizes(kOp, "grad_output", grad, {g.batch, weight.sym_size(0), g.out_height, g.out_width});
  need_sizes(kOp, "offset_out", samples, {g.batch, g.channels, g.out_height * o.kernel[0], g.out_width * o.kernel[1]});
  const auto f = [&](const auto& in) { return std::get<0>(deformed(in[0], in[1], in[2], std::nullopt, g, o)); };
  const auto d = gradients_of(f, {input, weight, offset}, grad);
  return {d[0], d[1], d[2], wide(grad).sum({0, 2, 3}).to(grad.scalar_type())};
}

at::Tensor causal_convolution(const char* op, const at::Tensor& input, const at::Tensor& weight,
                              const OptionalTensor& mask) {
  check_causal(op, input, weight, mask);
  return causal(input, weight, mask);
}

Pair causal_convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& mask) {
  constexpr const char* kOp = "npu_masked_causal_conv1d_backward";
  check_causal(kOp, input, weight, mask);
  need_sizes(kOp, "grad_output", grad, sizes_of(input));
  const auto d = gradients_of([&](const auto& in) { return causal(in[0], in[1], mask); }, {input, weight}, grad);
  return {d[0], d[1]};
}

}  // namespace npu::ops
