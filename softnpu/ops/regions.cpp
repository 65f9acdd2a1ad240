// See regions.h.
#include "softnpu/ops/regions.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

void check_grid(const Tensor& rois, const RegionGrid& g) {
  need_sizes("rois", rois, {-1, 5});
  need_number("roiEndMode", g.end_mode, {0});
  TORCH_CHECK_NOT_IMPLEMENTED(g.samples > 0, "sampleNum ", g.samples,
                              ", samples that follow a region's size, is not implemented; give their number");
  TORCH_CHECK(g.height > 0 && g.width > 0, "a grid of ", g.height, " x ", g.width);
}

// One axis of the samples: the pixel below, the one above, the weight of the latter, and whether the sample lies inside.
struct Axis {
  Tensor low, high, part, inside;  // [regions, samples]
};
Axis axis(const Tensor& begin, const Tensor& end, int64_t cells, int64_t samples, int64_t pixels) {
  const Tensor step = (end - begin).clamp_min(1) / static_cast<double>(cells * samples);
  const Tensor place = begin.unsqueeze(1) + (at::arange(cells * samples, begin.options()) + 0.5) * step.unsqueeze(1);
  const Tensor inside = place.ge(-1).logical_and(place.le(pixels)), at_pixel = place.clamp(0, pixels - 1);
  const Tensor low = at_pixel.floor();
  return {low.to(at::kLong), (low + 1).clamp_max(pixels - 1).to(at::kLong), at_pixel - low, inside};
}

// Calls body(index, weight) for the four pixels around each sample: the row of [batch * height * width] and its part, [regions, ys, xs].
template <class Body>
void each_corner(const Tensor& rois, const RegionGrid& g, int64_t height, int64_t width, const Body& body) {
  const Tensor r = wide(rois), scaled = r.narrow(1, 1, 4) * g.scale;
  const auto side = [&](int64_t i) { return scaled.select(1, i); };
  const Axis ys = axis(side(1), side(3), g.height, g.samples, height),
             xs = axis(side(0), side(2), g.width, g.samples, width);
  const Tensor image = r.select(1, 0).to(at::kLong).unsqueeze(1).unsqueeze(2) * (height * width);
  const Tensor inside = ys.inside.unsqueeze(2).logical_and(xs.inside.unsqueeze(1)).to(r.scalar_type());
  for (const bool upper : {false, true}) {
    for (const bool right : {false, true}) {
      const Tensor index =
          image + (upper ? ys.high : ys.low).unsqueeze(2) * width + (right ? xs.high : xs.low).unsqueeze(1);
      const Tensor weight = (upper ? ys.part : 1 - ys.part).unsqueeze(2) * (right ? xs.part : 1 - xs.part).unsqueeze(1);
      body(index, weight * inside);
    }
  }
}

}  // namespace

void check_regions(const Tensor& x, const Tensor& rois, const RegionGrid& g, const Tensor& out) {
  need_dims("self", x, {4});
  check_grid(rois, g);
  TORCH_CHECK(x.numel() > 0 || rois.size(0) == 0, "self is empty, ", x.sizes());
  need_sizes("out", out, {rois.size(0), x.size(1), g.height, g.width});
}

void pool_regions(const Tensor& x, const Tensor& rois, const RegionGrid& g, Tensor& out) {
  const int64_t count = rois.size(0);
  const Tensor rows = wide(x).permute({0, 2, 3, 1}).flatten(0, 2);  // [batch * height * width, channels]
  Tensor sum = at::zeros({count, g.height * g.samples, g.width * g.samples, x.size(1)}, rows.options());
  each_corner(rois, g, x.size(2), x.size(3), [&](const Tensor& index, const Tensor& weight) {
    sum += rows.index_select(0, index.flatten()).view(sum.sizes()) * weight.unsqueeze(-1).to(rows.scalar_type());
  });
  const std::vector<int64_t> within = {2, 4};
  put(out, sum.view({count, g.height, g.samples, g.width, g.samples, x.size(1)}).mean(within).permute({0, 3, 1, 2}));
}

void check_regions_backward(const Tensor& grad, const Tensor& rois, IntArrayRef sizes, const RegionGrid& g,
                            const Tensor& out) {
  TORCH_CHECK(sizes.size() == 4, "xdiffShape ", sizes, " has not four sizes");
  check_grid(rois, g);
  need_sizes("self", grad, {rois.size(0), sizes[1], g.height, g.width});
  need_sizes("out", out, sizes);
}

void pool_regions_backward(const Tensor& grad, const Tensor& rois, const RegionGrid& g, Tensor& out) {
  const int64_t channels = out.size(1), height = out.size(2), width = out.size(3);
  const Tensor d = wide(grad).permute({0, 2, 3, 1}) / static_cast<double>(g.samples * g.samples);
  const Tensor each = d.repeat_interleave(g.samples, 1).repeat_interleave(g.samples, 2);  // [regions, ys, xs, channels]
  Tensor rows = at::zeros({out.size(0) * height * width, channels}, d.options());
  each_corner(rois, g, height, width, [&](const Tensor& index, const Tensor& weight) {
    rows.index_add_(0, index.flatten(), (each * weight.unsqueeze(-1)).to(d.scalar_type()).reshape({-1, channels}));
  });
  put(out, rows.view({out.size(0), height, width, channels}).permute({0, 3, 1, 2}));
}

}  // namespace softnpu::ops::kernels
