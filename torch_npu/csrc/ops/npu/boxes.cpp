// See boxes.h.
#include "csrc/ops/npu/boxes.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <numbers>

#include "csrc/ops/npu/gradient_of.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

struct Corners {
  at::Tensor x1, y1, x2, y2;
  at::Tensor width() const { return x2 - x1; }
  at::Tensor height() const { return y2 - y1; }
};

// Of [4, count]; where every pair is asked for, one operand's along columns, the other's along rows.
Corners corners(const char* name, const at::Tensor& of, BoxPairs pairs, bool column) {
  TORCH_CHECK(of.dim() == 2 && of.sym_size(0) == 4, name, " must be [4, count], it has the sizes ", of.sym_sizes());
  const at::Tensor t = countable(of);
  const auto row = [&](int64_t i) { return pairs.cross ? t.select(0, i).unsqueeze(column ? 1 : 0) : t.select(0, i); };
  if (!pairs.centred) return {row(0), row(1), row(2), row(3)};
  const at::Tensor w = row(2) / 2, h = row(3) / 2;
  return {row(0) - w, row(1) - h, row(0) + w, row(1) + h};
}

struct Losses {
  at::Tensor value, angle;
};

Losses losses(Overlap kind, const at::Tensor& boxes, const at::Tensor& others, BoxPairs pairs) {
  TORCH_CHECK_NOT_IMPLEMENTED(pairs.mode == 0, "mode ", pairs.mode, " is not implemented; 0 is");
  const bool generalized = kind == Overlap::kGeneralized;
  const Corners a = corners("input", boxes, pairs, generalized), b = corners("gtboxes", others, pairs, !generalized);
  const c10::SymInt count = boxes.sym_size(1), other = others.sym_size(1);
  TORCH_SYM_CHECK(count.sym_eq(other).sym_or(count.sym_eq(1)).sym_or(other.sym_eq(1)).sym_or(pairs.cross), "input has ",
                  count, " boxes and gtboxes ", other, "; without is_cross they must be as many");
  const double eps = generalized ? 1e-16 : 1e-9;
  const double side = generalized ? 0 : eps;
  const at::Tensor shared = (at::minimum(a.x2, b.x2) - at::maximum(a.x1, b.x1)).clamp_min(0) *
                            (at::minimum(a.y2, b.y2) - at::maximum(a.y1, b.y1)).clamp_min(0);
  const at::Tensor all = a.width() * (a.height() + side) + b.width() * (b.height() + side) - shared + eps;
  const at::Tensor iou = shared / all;
  const at::Tensor w = at::maximum(a.x2, b.x2) - at::minimum(a.x1, b.x1);
  const at::Tensor h = at::maximum(a.y2, b.y2) - at::minimum(a.y1, b.y1);
  at::Tensor value, angle;
  if (generalized) {
    const at::Tensor outer = w * h;
    value = iou - (outer - all) / outer;
  } else {
    const at::Tensor distance = ((b.x1 + b.x2 - a.x1 - a.x2).square() + (b.y1 + b.y2 - a.y1 - a.y2).square()) / 4;
    value = iou - distance / (w.square() + h.square() + eps);
  }
  if (kind == Overlap::kComplete) {
    angle = at::atan(b.width() / (b.height() + eps)) - at::atan(a.width() / (a.height() + eps));
    const at::Tensor v = angle.square() * (4 / (std::numbers::pi * std::numbers::pi));
    value = value - v / (1 - iou + v + eps) * v;
  }
  if (pairs.cross) return {value, angle};
  if (generalized) return {value.unsqueeze(1), angle};
  return {value.unsqueeze(0), angle.defined() ? angle.unsqueeze(0) : angle};
}

struct Centred {
  at::Tensor x, y, w, h;
};
Centred centred(const at::Tensor& t, int64_t dim, double one) {
  const at::Tensor x1 = t.select(dim, 0), y1 = t.select(dim, 1), x2 = t.select(dim, 2), y2 = t.select(dim, 3);
  return {(x1 + x2) * 0.5, (y1 + y2) * 0.5, x2 - x1 + one, y2 - y1 + one};
}
at::Tensor degrees(const at::Tensor& t) { return t * (180 / std::numbers::pi); }
at::Tensor radians(const at::Tensor& t) { return t * (std::numbers::pi / 180); }
at::Tensor along(const at::Tensor& weight) { return weight.reshape({1, 5, 1}); }

const char* name_of_gradient(Overlap kind) {
  switch (kind) {
    case Overlap::kGeneralized:
      return "npu_giou_backward";
    case Overlap::kDistance:
      return "npu_diou_backward";
    default:
      return "npu_ciou_backward";
  }
}

}  // namespace

at::Tensor box_loss(Overlap kind, const at::Tensor& boxes, const at::Tensor& others, BoxPairs pairs) {
  return losses(kind, boxes, others, pairs).value;
}

Pair box_loss_and_angle(const at::Tensor& boxes, const at::Tensor& others, BoxPairs pairs) {
  const Losses found = losses(Overlap::kComplete, boxes, others, pairs);
  return {found.value, found.angle};
}

Pair box_loss_backward(Overlap kind, const at::Tensor& grad, const at::Tensor& boxes, const at::Tensor& others,
                       BoxPairs pairs) {
  const auto f = [&](const auto& in) {
    const at::Tensor loss = box_loss(kind, in[0], in[1], pairs);
    need_sizes(name_of_gradient(kind), "grad", grad, sizes_of(loss));
    return loss;
  };
  const auto found = gradients_of(name_of_gradient(kind), f, {boxes, others}, grad);
  return {found[0], found[1]};
}

at::Tensor box_offsets(const at::Tensor& anchors, const at::Tensor& boxes, const BoxScale& scale) {
  const Centred a = centred(anchors, 1, 1), b = centred(boxes, 1, 1);
  const at::Tensor offsets[4] = {(b.x - a.x) / a.w, (b.y - a.y) / a.h, at::log(b.w / a.w), at::log(b.h / a.h)};
  std::vector<at::Tensor> out;
  for (int i = 0; i < 4; i++) out.push_back((offsets[i] - scale.mean[i]) / scale.std[i]);
  return at::stack(out, 1);
}

at::Tensor box_of_offsets(const at::Tensor& rois, const at::Tensor& offsets, const BoxScale& scale,
                          at::IntArrayRef limits, double clip) {
  const Centred a = centred(rois, 1, 1);
  const double most = std::abs(std::log(clip));
  const auto offset = [&](int i) { return offsets.select(1, i) * scale.std[i] + scale.mean[i]; };
  const at::Tensor x = a.x + a.w * offset(0), y = a.y + a.h * offset(1);
  const at::Tensor w = a.w * at::exp(offset(2).clamp(-most, most)), h = a.h * at::exp(offset(3).clamp(-most, most));
  TORCH_CHECK(!limits.empty() && limits.size() <= 2, "npu_bounding_box_decode: max_shape is height and width");
  const double rows = static_cast<double>(limits[0] - 1), columns = static_cast<double>(limits.back() - 1);
  return at::stack({(x - w * 0.5 + 0.5).clamp(0, columns), (y - h * 0.5 + 0.5).clamp(0, rows),
                    (x + w * 0.5 - 0.5).clamp(0, columns), (y + h * 0.5 - 0.5).clamp(0, rows)},
                   1);
}

at::Tensor rotated_box_offsets(const at::Tensor& anchors, const at::Tensor& boxes, const at::Tensor& weight) {
  const Centred a = centred(anchors, 1, 0), b = centred(boxes, 1, 0);
  const at::Tensor turn = at::tan(radians(boxes.select(1, 4))) - at::tan(radians(anchors.select(1, 4)));
  return at::stack({(b.x - a.x) / a.w, (b.y - a.y) / a.h, at::log(b.w / a.w), at::log(b.h / a.h), turn}, 1) *
         along(weight);
}

at::Tensor rotated_box_of_offsets(const at::Tensor& anchors, const at::Tensor& offsets, const at::Tensor& weight) {
  const Centred a = centred(anchors, 1, 0);
  const at::Tensor d = offsets / along(weight);
  const at::Tensor x = a.x + a.w * d.select(1, 0), y = a.y + a.h * d.select(1, 1);
  const at::Tensor w = a.w * at::exp(d.select(1, 2)) * 0.5, h = a.h * at::exp(d.select(1, 3)) * 0.5;
  const at::Tensor angle = degrees(at::atan(at::tan(radians(anchors.select(1, 4))) + d.select(1, 4)));
  return at::stack({x - w, y - h, x + w, y + h, angle}, 1);
}

at::Tensor yolo_targets(const at::Tensor& anchors, const at::Tensor& boxes, const at::Tensor& stride) {
  constexpr double kEps = 1e-6;
  const Centred a = centred(anchors, 1, 0), b = centred(boxes, 1, 0);
  const at::Tensor step = stride.to(anchors.scalar_type());
  const auto place = [&](const at::Tensor& to, const at::Tensor& from) {
    return ((to - from) / step + 0.5).clamp(kEps, 1 - kEps);
  };
  const auto size = [&](const at::Tensor& to, const at::Tensor& from) { return at::log((to / from).clamp_min(kEps)); };
  return at::stack({place(b.x, a.x), place(b.y, a.y), size(b.w, a.w), size(b.h, a.h)}, 1);
}

at::Tensor responsible_anchors(const at::Tensor& boxes, at::IntArrayRef size, at::IntArrayRef stride, int64_t anchors) {
  TORCH_CHECK(size.size() == 2 && stride.size() == 2,
              "npu_anchor_response_flags: featmap_size and stride have two members each, not ", size.size(), " and ",
              stride.size());
  TORCH_CHECK(stride[0] > 0 && stride[1] > 0, "npu_anchor_response_flags: stride is positive, not ", stride);
  const Centred b = centred(boxes, 1, 0);
  const at::Tensor column = (b.x / static_cast<double>(stride[0])).floor().to(at::kLong);
  const at::Tensor row = (b.y / static_cast<double>(stride[1])).floor().to(at::kLong);
  const int64_t cells = size[0] * size[1];
  const at::Tensor inside = (column >= 0) & (column < size[1]) & (row >= 0) & (row < size[0]);
  const at::Tensor cell = at::where(inside, row * size[1] + column, cells);  // the last one is of no cell
  const at::Tensor flags =
      at::zeros({cells + 1}, boxes.options().dtype(at::kByte)).index_fill(0, cell, 1).narrow(0, 0, cells);
  return flags.unsqueeze(1).expand({cells, anchors}).reshape({-1});
}

}  // namespace npu::ops
