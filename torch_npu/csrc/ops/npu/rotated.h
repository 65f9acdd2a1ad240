// Boxes that are turned by an angle: the area two of them share, and the choice of those that do not overlap. Compositions of PyTorch's
// operators in float32. Boxes are (x, y, width, height, degrees). Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

at::Tensor rotated_overlaps(const at::Tensor& boxes, const at::Tensor& queries, bool corners);
struct RotatedShare {
  bool corners;
  int64_t mode;
  bool cross;
  double height, angle;
};
at::Tensor rotated_share(const at::Tensor& boxes, const at::Tensor& queries, const RotatedShare& share);
struct RotatedChoice {
  double overlap, least;
  int64_t most, mode;
};
Pair chosen_rotated(const at::Tensor& boxes, const at::Tensor& scores, const RotatedChoice& choice);

}  // namespace npu::ops
