// Convolutions whose samples lie off the grid: regions.h.
#include <ATen/ops/arange.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/regions.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

struct Geometry {
  int64_t batch, channels, height, width, out_height, out_width;
};

Geometry geometry(const Deformed& of, const Deformation& o) {
  const auto out = [&](int64_t dim, int64_t pads) {
    return (of.x.size(dim) + pads - (o.kernel[dim - 2] - 1) * o.dilation[dim] - 1) / o.stride[dim] + 1;
  };
  return {of.x.size(0),
          of.x.size(1),
          of.x.size(2),
          of.x.size(3),
          out(2, o.padding[0] + o.padding[1]),
          out(3, o.padding[2] + o.padding[3])};
}

Geometry check_operands(const Deformed& of, const Deformation& o) {
  need_dims("x", of.x, {4});
  TORCH_CHECK(o.kernel.size() == 2 && o.kernel[0] > 0 && o.kernel[1] > 0, "kernelSize is ", o.kernel);
  TORCH_CHECK(o.stride.size() == 4 && o.padding.size() == 4 && o.dilation.size() == 4,
              "stride, padding and dilation have four members, not ", o.stride.size(), ", ", o.padding.size(), " and ",
              o.dilation.size());
  TORCH_CHECK(o.stride[0] == 1 && o.stride[1] == 1 && o.stride[2] > 0 && o.stride[3] > 0,
              "stride is 1, 1 and two positive numbers, not ", o.stride);
  TORCH_CHECK(o.dilation[0] == 1 && o.dilation[1] == 1 && o.dilation[2] > 0 && o.dilation[3] > 0,
              "dilation is 1, 1 and two positive numbers, not ", o.dilation);
  for (const int64_t p : o.padding) TORCH_CHECK(p >= 0, "padding is not negative, ", o.padding);
  const int64_t channels = of.x.size(1);
  TORCH_CHECK(o.groups > 0 && o.offset_groups > 0 && channels % o.groups == 0 && channels % o.offset_groups == 0,
              channels, " channels do not divide into ", o.groups, " groups and ", o.offset_groups,
              " deformableGroups");
  need_sizes("weight", of.weight, {-1, channels / o.groups, o.kernel[0], o.kernel[1]});
  TORCH_CHECK(of.weight.size(0) % o.groups == 0, of.weight.size(0), " results do not divide into ", o.groups,
              " groups");
  need_sizes("bias", of.bias, {of.weight.size(0)});
  const Geometry g = geometry(of, o);
  TORCH_CHECK(g.out_height > 0 && g.out_width > 0 && of.x.numel() > 0, "x ", of.x.sizes(), " is too small for ",
              o.kernel);
  need_sizes("offset", of.offset,
             {g.batch, o.offset_groups * o.kernel[0] * o.kernel[1] * (o.masked ? 3 : 2), g.out_height, g.out_width});
  return g;
}

std::vector<int64_t> sample_sizes(const Geometry& g, const Deformation& o) {
  return {g.batch, g.channels, g.out_height * o.kernel[0], g.out_width * o.kernel[1]};
}

// The places of the samples, [batch, groups, kh, kw, out_height, out_width]: the pixel to the upper left and how far beyond it.
struct Places {
  Tensor left, top, dx, dy, mask;
};
Places places(const Tensor& offset, const Geometry& g, const Deformation& o) {
  const int64_t kh = o.kernel[0], kw = o.kernel[1];
  const Tensor parts =
      wide(offset).reshape({g.batch, o.masked ? 3 : 2, o.offset_groups, kh, kw, g.out_height, g.out_width});
  const auto steps = [&](int64_t count, int64_t step) { return at::arange(count, parts.options()) * step; };
  const Tensor column = steps(kw, o.dilation[3]).view({kw, 1, 1}) + steps(g.out_width, o.stride[3]) - o.padding[2];
  const Tensor row =
      steps(kh, o.dilation[2]).view({kh, 1, 1, 1}) + steps(g.out_height, o.stride[2]).unsqueeze(1) - o.padding[0];
  const Tensor across = parts.select(1, 0) + column, down = parts.select(1, 1) + row;
  const Tensor left = across.floor(), top = down.floor();
  return {left, top, across - left, down - top, o.masked ? parts.select(1, 2) : Tensor()};
}

// Calls body(index, weight, right, bottom, inside) for the four pixels around each sample, [batch, groups, 1, count] each.
template <class Body>
void each_corner(const Places& p, const Geometry& g, const Deformation& o, const Body& body) {
  const std::vector<int64_t> flat = {g.batch, o.offset_groups, 1,
                                     o.kernel[0] * o.kernel[1] * g.out_height * g.out_width};
  for (const bool bottom : {false, true}) {
    for (const bool right : {false, true}) {
      const Tensor c = p.left + static_cast<double>(right), r = p.top + static_cast<double>(bottom);
      const Tensor inside = c.ge(0).logical_and(c.lt(g.width)).logical_and(r.ge(0)).logical_and(r.lt(g.height));
      // An offset that is nan is nowhere, too.
      const Tensor place = at::where(inside, r * g.width + c, 0).to(at::kLong);
      const Tensor share = (right ? p.dx : 1 - p.dx) * (bottom ? p.dy : 1 - p.dy);
      body(place.reshape(flat), share.masked_fill(inside.logical_not(), 0).reshape(flat), right, bottom,
           inside.to(p.dx.scalar_type()));
    }
  }
}

Tensor pixels(const Tensor& x, const Geometry& g, const Deformation& o) {
  return wide(x).reshape({g.batch, o.offset_groups, g.channels / o.offset_groups, g.height * g.width});
}

// Samples by kernel place to the picture that the convolution goes over, and back.
Tensor to_picture(const Tensor& samples, const Geometry& g, const Deformation& o) {
  return samples.reshape({g.batch, g.channels, o.kernel[0], o.kernel[1], g.out_height, g.out_width})
      .permute({0, 1, 4, 2, 5, 3})
      .reshape(sample_sizes(g, o));
}
Tensor from_picture(const Tensor& t, const Geometry& g, const Deformation& o) {
  return t.reshape({g.batch, g.channels, g.out_height, o.kernel[0], g.out_width, o.kernel[1]})
      .permute({0, 1, 3, 5, 2, 4})
      .reshape({g.batch, o.offset_groups, g.channels / o.offset_groups, -1});
}

// Without the mask: [batch, groups, channels of a group, count].
Tensor sampled(const Tensor& x, const Places& p, const Geometry& g, const Deformation& o) {
  const Tensor all = pixels(x, g, o);
  Tensor sum;
  each_corner(p, g, o, [&](const Tensor& place, const Tensor& share, bool, bool, const Tensor&) {
    const Tensor part = all.gather(3, place.expand({-1, -1, all.size(2), -1})) * share;
    sum = sum.defined() ? sum.add_(part) : part;
  });
  return sum;
}

Tensor mask_of(const Places& p) { return p.mask.flatten(2).unsqueeze(2); }

}  // namespace

void check_deformed(const Deformed& of, const Deformation& o, const Tensor& out, const Tensor& samples) {
  const Geometry g = check_operands(of, o);
  need_sizes("out", out, {g.batch, of.weight.size(0), g.out_height, g.out_width});
  need_result("deformOut", samples, sample_sizes(g, o));
}

void deformed_convolution(const Deformed& of, const Deformation& o, Tensor& out, Tensor& samples) {
  const Geometry g = geometry(of, o);
  const Places p = places(of.offset, g, o);
  Tensor found = sampled(of.x, p, g, o);
  if (o.masked) found = found * mask_of(p);
  const Tensor picture = to_picture(found, g, o);
  const OptionalTensor bias = given(of.bias) ? OptionalTensor(wide(*of.bias)) : std::nullopt;
  const std::vector<int64_t> none = {0, 0}, one = {1, 1};
  put(out, at::convolution(picture, wide(of.weight), bias, o.kernel, none, one, false, none, o.groups));
  put_if_fits(samples, picture);
}

void check_deformed_backward(const Deformed& of, const Tensor& grad, const Tensor& samples, const Deformation& o,
                             const DeformedGradients& made) {
  const Geometry g = check_operands(of, o);
  need_sizes("gradOutput", grad, {g.batch, of.weight.size(0), g.out_height, g.out_width});
  need_sizes("offsetOut", samples, sample_sizes(g, o));
  need_sizes("gradInput", made.x, of.x.sizes());
  need_sizes("gradWeight", made.weight, of.weight.sizes());
  need_sizes("gradOffset", made.offset, of.offset.sizes());
  need_sizes("gradBias", made.bias, {of.weight.size(0)});
}

void deformed_convolution_backward(const Deformed& of, const Tensor& grad, const Tensor& samples, const Deformation& o,
                                   const DeformedGradients& made) {
  const Geometry g = geometry(of, o);
  const Places p = places(of.offset, g, o);
  const Tensor d = wide(grad), all = pixels(of.x, g, o);
  const std::vector<int64_t> none = {0, 0}, one = {1, 1};
  const auto [of_picture, of_weight, unused] =
      at::convolution_backward(d, wide(samples), wide(of.weight), at::OptionalIntArrayRef(), o.kernel, none, one, false,
                               none, o.groups, {true, true, false});
  put(made.weight, of_weight);
  put(made.bias, d.sum(std::vector<int64_t>{0, 2, 3}));
  const Tensor of_samples = from_picture(of_picture, g, o);
  const std::vector<int64_t> by_place = p.dx.sizes().vec();
  Tensor of_found = of_samples, of_mask;
  if (o.masked) {
    of_mask = (of_samples * sampled(of.x, p, g, o)).sum(2).reshape(by_place);
    of_found = of_samples * mask_of(p);
  }
  Tensor of_pixels = at::zeros(all.sizes(), all.options());
  Tensor of_x = at::zeros(by_place, all.options()), of_y = at::zeros(by_place, all.options());
  each_corner(p, g, o, [&](const Tensor& place, const Tensor& share, bool right, bool bottom, const Tensor& inside) {
    const Tensor index = place.expand({-1, -1, all.size(2), -1});
    of_pixels.scatter_add_(3, index, of_found * share);
    const Tensor along = (of_found * all.gather(3, index)).sum(2).reshape(by_place) * inside;
    of_x += along * (bottom ? p.dy : 1 - p.dy) * (right ? 1. : -1.);
    of_y += along * (right ? p.dx : 1 - p.dx) * (bottom ? 1. : -1.);
  });
  put(made.x, of_pixels.reshape(of.x.sizes()));
  Tensor parts = at::zeros(
      {g.batch, o.masked ? 3 : 2, o.offset_groups, o.kernel[0], o.kernel[1], g.out_height, g.out_width}, all.options());
  parts.select(1, 0).copy_(of_x);
  parts.select(1, 1).copy_(of_y);
  if (o.masked) parts.select(1, 2).copy_(of_mask);
  put(made.offset, parts.reshape(of.offset.sizes()));
}

}  // namespace softnpu::ops::kernels
