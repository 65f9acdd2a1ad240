// See vision.h.
#include "csrc/ops/npu/vision.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "csrc/ops/npu/gradient_of.h"
#include "csrc/ops/npu/overlaps.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

using at::Tensor;

// Which boxes stay, [.., boxes], of those alive: none that one before it, which stays, lies above.
Tensor staying(const Tensor& above, Tensor alive) {
  const int64_t count = known(alive, alive.dim() - 1);
  const Tensor place = at::arange(count, alive.options().dtype(at::kLong));
  for (int64_t i = 0; i < count; ++i) {
    const Tensor hit = above.select(-2, i).logical_and(alive.select(-1, i).unsqueeze(-1)).logical_and(place.gt(i));
    alive = alive.logical_and(hit.logical_not());
  }
  return alive;
}

void check_grid(const char* op, const Tensor& rois, const PositionGrid& g) {
  need_sizes(op, "rois", rois, {-1, 5, -1});
  TORCH_CHECK_VALUE(g.group > 0 && g.group < 128 && g.channels > 0, op, ": group_size ", g.group, " and output_dim ",
                    g.channels, "; they are 1 to 127, and positive");
}

// Which pixels each cell of a region covers, [regions, cells, pixels].
Tensor covered(const Tensor& begin, const Tensor& end, int64_t cells, int64_t pixels) {
  const Tensor step = ((end - begin).clamp_min(0.1) / static_cast<double>(cells)).unsqueeze(1);
  const Tensor cell = at::arange(cells, begin.options()), pixel = at::arange(pixels, begin.options());
  const Tensor from = (cell * step + begin.unsqueeze(1)).floor(), to = ((cell + 1) * step + begin.unsqueeze(1)).ceil();
  return pixel.ge(from.unsqueeze(-1)).logical_and(pixel.lt(to.unsqueeze(-1)));
}

Tensor pooled(const Tensor& input, const Tensor& rois, const PositionGrid& g) {
  const Tensor x = wide(input), r = wide(rois.detach()).transpose(1, 2).flatten(0, 1);  // [regions, 5]
  const auto side = [&](int64_t i) { return (r.select(1, i).round() + (i > 2 ? 1 : 0)) * g.scale; };
  const Tensor rows = covered(side(2), side(4), g.group, known(x, 2)).to(x.scalar_type());
  const Tensor columns = covered(side(1), side(3), g.group, known(x, 3)).to(x.scalar_type());
  const Tensor image = r.select(1, 0), last = image.ge(0).logical_and(image.lt(known(x, 0)));
  const Tensor of = image.clamp(0, known(x, 0) - 1).to(at::kLong);
  const Tensor maps = x.unflatten(1, {g.channels, g.group, g.group});
  std::vector<Tensor> cells;
  for (int64_t i = 0; i < g.group; ++i) {
    for (int64_t j = 0; j < g.group; ++j) {
      const Tensor map = maps.select(2, i).select(2, j).index_select(0, of);  // [regions, channels, height, width]
      const Tensor row = rows.select(1, i), column = columns.select(1, j);
      const Tensor sum = at::matmul(row.unsqueeze(1).unsqueeze(1), at::matmul(map, column.unsqueeze(1).unsqueeze(-1)));
      const Tensor count = row.sum(1) * column.sum(1);
      const Tensor real = count.gt(0).logical_and(last).unsqueeze(1);
      cells.push_back(at::where(real, sum.squeeze(-1).squeeze(-1) / count.clamp_min(1).unsqueeze(1), 0));
    }
  }
  return at::stack(cells, -1).unflatten(-1, {g.group, g.group}).to(input.scalar_type());
}

}  // namespace

Four chosen_by_class(const Tensor& boxes, const Tensor& scores, const ClassChoice& c) {
  const char* const op = "npu_batch_nms";
  TORCH_CHECK_NOT_IMPLEMENTED(!c.frame && !c.transposed, op,
                              ": change_coordinate_frame and transpose_box are not implemented; leave them out");
  TORCH_CHECK_VALUE(c.per_class > 0 && c.total > 0, op, ": max_size_per_class ", c.per_class, ", max_total_size ",
                    c.total, "; both are positive");
  need_dims(op, "scores", scores, {3});
  need_sizes(op, "input", boxes, {scores.sym_size(0), scores.sym_size(1), -1, 4});
  const int64_t kinds = known(scores, 2), count = known(scores, 1);
  TORCH_CHECK_VALUE(known(boxes, 2) == 1 || known(boxes, 2) == kinds, op, ": input has boxes of ", boxes.size(2),
                    " classes, scores of ", kinds);
  const Tensor all = wide(boxes.detach()).expand({-1, -1, kinds, -1}).transpose(1, 2);  // [batch, classes, boxes, 4]
  const auto [score, order] = wide(scores.detach()).transpose(1, 2).sort(true, -1, true);
  const Tensor sorted = all.gather(2, order.unsqueeze(-1).expand_as(all));
  Tensor alive = staying(overlaps(sorted).gt(c.overlap), score.gt(c.least));
  alive = alive.logical_and(alive.to(at::kLong).cumsum(-1).le(c.per_class));
  // Of all classes the highest scores.
  const int64_t candidates = kinds * count, kept = std::min(candidates, c.total);
  const Tensor flat = at::where(alive, score, -std::numeric_limits<float>::infinity()).flatten(1, 2);
  const Tensor chosen = std::get<1>(flat.sort(true, 1, true)).narrow(1, 0, kept);
  const Tensor real = alive.flatten(1, 2).gather(1, chosen);
  const auto padded = [&](const Tensor& t) {
    return at::constant_pad_nd(t, {0, c.total - kept}).to(boxes.scalar_type());
  };
  const Tensor found = sorted.flatten(1, 2).gather(1, chosen.unsqueeze(-1).expand({-1, -1, 4}));
  const Tensor held = at::where(real.unsqueeze(-1), found, 0);
  return {at::constant_pad_nd(held, {0, 0, 0, c.total - kept}).to(boxes.scalar_type()),
          padded(at::where(real, flat.gather(1, chosen), 0)),
          padded(at::where(real, chosen.div(count, "floor"), 0).to(score.scalar_type())), real.sum(1).to(at::kInt)};
}

Triple marked_boxes(const Tensor& boxes, const at::Scalar& overlap) {
  const char* const op = "npu_nms_with_mask";
  need_dims(op, "input", boxes, {2});
  TORCH_CHECK_VALUE(known(boxes, 1) == 5 || known(boxes, 1) == 8, op, ": input has ", boxes.size(1),
                    " columns; four corners and a score are 5, and there may be 8");
  const Tensor b = wide(boxes.detach());
  const Tensor index = at::arange(known(boxes, 0), boxes.options().dtype(at::kInt));
  const Tensor stays = staying(overlaps(b.narrow(1, 0, 4)).gt(overlap), index.ge(0));
  return {boxes.detach().narrow(1, 0, 5).clone(), index, stays.to(at::kByte)};
}

Tensor assigned_anchors(const Tensor& assigned, const Assignment& a) {
  const char* const op = "npu_grid_assign_positive";
  need_dims(op, "input", assigned, {1});
  const c10::SymInt anchors = assigned.sym_size(0);
  need_sizes(op, "overlaps", a.overlaps, {-1, anchors});
  for (const auto& [name, t] :
       {std::pair{"box_responsible_flags", &a.flags}, {"max_overlaps", &a.most}, {"argmax_overlaps", &a.best}}) {
    need_sizes(op, name, *t, {anchors});
  }
  for (const auto& [name, t] : {std::pair{"gt_max_overlaps", &a.gt_most}, {"gt_argmax_overlaps", &a.gt_best}}) {
    need_sizes(op, name, *t, {a.overlaps.sym_size(0)});
  }
  TORCH_CHECK_VALUE(a.count >= 0, op, ": num_gts is ", a.count);
  const Tensor ready = a.flags.ne(0), place = at::arange(known(assigned, 0), a.best.options());
  Tensor out = at::where(a.most.gt(a.above).logical_and(ready), (a.best + 1).to(assigned.scalar_type()), assigned);
  for (int64_t i = 0; i < std::min(a.count, known(a.overlaps, 0)); ++i) {
    const Tensor mine = a.all ? a.overlaps[i].eq(a.gt_most[i]) : place.eq(a.gt_best[i]);
    out = at::where(mine.logical_and(ready).logical_and(a.gt_most[i].gt(a.least)), i + 1, out);
  }
  return out.to(assigned.scalar_type());
}

Tensor position_pooled(const Tensor& input, const Tensor& rois, const PositionGrid& g) {
  const char* const op = "npu_ps_roi_pooling";
  check_grid(op, rois, g);
  need_sizes(op, "input", input, {rois.sym_size(0), g.group * g.group * g.channels, -1, -1});
  return pooled(input, rois, g);
}

Tensor position_pooled_backward(const Tensor& grad, const Tensor& rois, const PositionGrid& g,
                                c10::SymIntArrayRef size) {
  const char* const op = "npu_ps_roi_pooling_backward";
  check_grid(op, rois, g);
  TORCH_CHECK_VALUE(size.size() == 2, op, ": input_size ", size, " is not a height and a width");
  need_sizes(op, "output_grad", grad, {rois.sym_size(0) * rois.sym_size(2), g.channels, g.group, g.group});
  const auto forward = [&](const std::vector<Tensor>& o) { return pooled(o[0], rois, g); };
  const Tensor like =
      at::zeros_symint({rois.sym_size(0), g.group * g.group * g.channels, size[0], size[1]}, grad.options());
  return gradients_of(op, forward, {like}, grad)[0];
}

}  // namespace npu::ops
