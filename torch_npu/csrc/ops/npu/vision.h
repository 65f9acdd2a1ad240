// Detectors' old operators: choice of boxes by class, assignment of anchors, position-sensitive pooling. Compositions of PyTorch's operators
// in float32. Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
struct ClassChoice {
  double least, overlap;
  int64_t per_class, total;
  bool frame, transposed;
};
Four chosen_by_class(const at::Tensor& boxes, const at::Tensor& scores, const ClassChoice& choice);
Triple marked_boxes(const at::Tensor& boxes, const at::Scalar& overlap);

struct Assignment {
  const at::Tensor &overlaps, &flags, &most, &best, &gt_most, &gt_best;
  int64_t count;
  double above, least;
  bool all;
};
at::Tensor assigned_anchors(const at::Tensor& assigned, const Assignment& a);

struct PositionGrid {
  double scale;
  int64_t group, channels;
};
at::Tensor position_pooled(const at::Tensor& input, const at::Tensor& rois, const PositionGrid& grid);
at::Tensor position_pooled_backward(const at::Tensor& grad, const at::Tensor& rois, const PositionGrid& grid,
                                    c10::SymIntArrayRef size);

}  // namespace npu::ops
