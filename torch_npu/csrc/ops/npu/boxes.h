// Boxes of detection: losses of overlap, offsets between boxes, targets of YOLO. Compositions of PyTorch's operators, which derive their
// gradients; boxes of the losses are [4, count], the others [count, 4]. Who uses it: rows of ops/npu.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

enum class Overlap { kGeneralized, kDistance, kComplete };

// Boxes are corners, or centre and size with `centred`; every pair with `cross`, else one number a box. Of the generalized overlap
// these are [boxes, others] and [count, 1], of the others [others, boxes] and [1, count], as the vendor's plugin has them.
struct BoxPairs {
  bool centred, cross;
  int64_t mode;  // 0, intersection over union
};
at::Tensor box_loss(Overlap kind, const at::Tensor& boxes, const at::Tensor& others, BoxPairs pairs);
Pair box_loss_and_angle(const at::Tensor& boxes, const at::Tensor& others, BoxPairs pairs);
Pair box_loss_backward(Overlap kind, const at::Tensor& grad, const at::Tensor& boxes, const at::Tensor& others,
                       BoxPairs pairs);

struct BoxScale {
  double mean[4], std[4];
};
at::Tensor box_offsets(const at::Tensor& anchors, const at::Tensor& boxes, const BoxScale& scale);
at::Tensor box_of_offsets(const at::Tensor& rois, const at::Tensor& offsets, const BoxScale& scale,
                          at::IntArrayRef limits, double clip);
at::Tensor rotated_box_offsets(const at::Tensor& anchors, const at::Tensor& boxes, const at::Tensor& weight);
at::Tensor rotated_box_of_offsets(const at::Tensor& anchors, const at::Tensor& offsets, const at::Tensor& weight);
at::Tensor yolo_targets(const at::Tensor& anchors, const at::Tensor& boxes, const at::Tensor& stride);
at::Tensor responsible_anchors(const at::Tensor& boxes, at::IntArrayRef size, at::IntArrayRef stride, int64_t anchors);

}  // namespace npu::ops
