// See rotated.h.
#include "csrc/ops/npu/rotated.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

using at::Tensor;

Tensor cross(const Tensor& a, const Tensor& b) {
  return a.select(-1, 0) * b.select(-1, 1) - a.select(-1, 1) * b.select(-1, 0);
}

// The corners in the order in which one walks around the box, [.., 4, 2].
Tensor corners(const Tensor& boxes) {
  const std::vector<Tensor> b = boxes.unbind(-1);
  const Tensor angle = b[4] * (std::acos(-1.0) / 180), c = angle.cos().unsqueeze(-1), s = angle.sin().unsqueeze(-1);
  const Tensor w = b[2] / 2, h = b[3] / 2;
  const Tensor right = at::stack({-w, w, w, -w}, -1), up = at::stack({-h, -h, h, h}, -1);
  return at::stack({b[0].unsqueeze(-1) + right * c - up * s, b[1].unsqueeze(-1) + right * s + up * c}, -1);
}

// Which points lie in a box, whose sides are given: on one side of all four.
Tensor inside(const Tensor& points, const Tensor& box, const Tensor& sides) {
  const Tensor turn = cross(sides.unsqueeze(-3), points.unsqueeze(-2) - box.unsqueeze(-3));
  return turn.ge(0).all(-1).logical_or(turn.le(0).all(-1));
}

// The area that boxes share, [..] of [.., 5]. It is a convex polygon, whose corners are where sides meet and corners of one box in the other.
Tensor shared_area(const Tensor& first, const Tensor& second) {
  // Coordinates about the pair's own middle keep float32's digits.
  const Tensor middle = (first.narrow(-1, 0, 2) + second.narrow(-1, 0, 2)).unsqueeze(-2) / 2;
  const std::vector<Tensor> pair = at::broadcast_tensors({corners(first) - middle, corners(second) - middle});
  const Tensor &a = pair[0], &b = pair[1];
  const Tensor along = a.roll({-1}, {-2}) - a, across = b.roll({-1}, {-2}) - b;
  const Tensor v = along.unsqueeze(-2), w = across.unsqueeze(-3), gap = b.unsqueeze(-3) - a.unsqueeze(-2);
  const Tensor turn = cross(v, w), crossing = turn.ne(0), divisor = at::where(crossing, turn, 1);
  const Tensor s = cross(gap, w) / divisor, t = cross(gap, v) / divisor;
  const Tensor meet = crossing.logical_and(s.ge(0)).logical_and(s.le(1)).logical_and(t.ge(0)).logical_and(t.le(1));
  const Tensor points = at::cat({(a.unsqueeze(-2) + v * s.unsqueeze(-1)).flatten(-3, -2), a, b}, -2);
  const Tensor real = at::cat({meet.flatten(-2), inside(a, b, across), inside(b, a, along)}, -1);
  const Tensor count = real.sum(-1), kept = real.unsqueeze(-1).to(points.scalar_type());
  const Tensor mean = (points * kept).sum(-2, true) / count.clamp_min(1).unsqueeze(-1).unsqueeze(-1);
  const Tensor spokes = (points - mean) * kept;
  const Tensor angle = at::where(real, at::atan2(spokes.select(-1, 1), spokes.select(-1, 0)), 1e9);
  const Tensor order = angle.argsort(int64_t{-1}, false);
  const Tensor walk = spokes.gather(-2, order.unsqueeze(-1).expand_as(spokes));
  const Tensor closed = at::where(real.gather(-1, order).unsqueeze(-1), walk, walk.narrow(-2, 0, 1));
  const Tensor area = cross(closed, closed.roll({-1}, {-2})).sum(-1).abs() / 2;
  return at::where(count.gt(2), area, 0);
}

Tensor area(const Tensor& boxes) { return boxes.select(-1, 2) * boxes.select(-1, 3); }

void check_boxes(const char* op, const Tensor& boxes, const Tensor& queries, bool corners) {
  need_sizes(op, "input", boxes, {-1, -1, 5});
  need_sizes(op, "query_boxes", queries, {boxes.sym_size(0), -1, 5});
  TORCH_CHECK_NOT_IMPLEMENTED(!corners, op, ": trans, boxes by two corners and an angle, is not implemented; give ",
                              "centre, width and height");
}

}  // namespace

Tensor rotated_overlaps(const Tensor& boxes, const Tensor& queries, bool corners) {
  check_boxes("npu_rotated_overlaps", boxes, queries, corners);
  const Tensor shared = shared_area(wide(boxes.detach()).unsqueeze(2), wide(queries.detach()).unsqueeze(1));
  return shared.to(boxes.scalar_type());
}

Tensor rotated_share(const Tensor& boxes, const Tensor& queries, const RotatedShare& share) {
  const char* const op = "npu_rotated_iou";
  check_boxes(op, boxes, queries, share.corners);
  check_number(op, "mode", share.mode, {0, 1});
  TORCH_CHECK_NOT_IMPLEMENTED(share.height == 0 && share.angle == 0, op,
                              ": v_threshold and e_threshold other than 0 are not implemented; leave them out");
  if (!share.cross) need_sizes(op, "query_boxes", queries, sizes_of(boxes));
  const Tensor a = wide(boxes.detach()), b = wide(queries.detach());
  const Tensor first = share.cross ? a.unsqueeze(2) : a, second = share.cross ? b.unsqueeze(1) : b;
  const Tensor shared = shared_area(first, second);
  const Tensor all = share.mode == 0 ? area(first) + area(second) - shared : area(first) + shared * 0;
  return at::where(all.gt(0), shared / at::where(all.gt(0), all, 1), 0).to(boxes.scalar_type());
}

Pair chosen_rotated(const Tensor& boxes, const Tensor& scores, const RotatedChoice& choice) {
  const char* const op = "npu_nms_rotated";
  need_sizes(op, "input", boxes, {-1, 5});
  need_sizes(op, "scores", scores, {boxes.sym_size(0)});
  check_number(op, "mode", choice.mode, {0, 1});
  const Tensor score = wide(scores.detach());
  const Tensor order = std::get<1>(score.sort(/*stable=*/true, 0, /*descending=*/true));
  Tensor sorted = wide(boxes.detach()).index_select(0, order);
  if (choice.mode == 1) {  // two corners, and an angle that turns the other way
    const Tensor low = sorted.narrow(1, 0, 2), high = sorted.narrow(1, 2, 2);
    sorted = at::cat({(low + high) / 2, high - low, -sorted.narrow(1, 4, 1)}, 1);
  }
  const Tensor first = sorted.unsqueeze(1), second = sorted.unsqueeze(0), size = area(sorted);
  const Tensor real = size.ge(1e-14).unsqueeze(1).logical_and(size.ge(1e-14));
  const Tensor shared = shared_area(first, second), all = size.unsqueeze(1) + size - shared;
  const Tensor above = (shared / at::where(real, all, 1)).gt(choice.overlap).logical_and(real);
  Tensor alive = score.index_select(0, order).gt(choice.least);
  const int64_t count = known(boxes, 0);
  const Tensor place = at::arange(count, order.options());
  for (int64_t i = 0; i < count; ++i) {
    alive = alive.logical_and(above[i].logical_and(alive[i]).logical_and(place.gt(i)).logical_not());
  }
  Tensor index = order.index_select(0, alive.nonzero().squeeze(1));
  Tensor chosen = alive.sum(0, /*keepdim=*/true).to(at::kInt);
  if (choice.most >= 0) {
    index = index.slice(0, 0, choice.most);
    chosen = chosen.clamp_max(choice.most);
  }
  return {index.to(at::kInt), chosen};
}

}  // namespace npu::ops
