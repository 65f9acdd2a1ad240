// Overlaps of boxes. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace softnpu::ops::kernels {

// Boxes (x1, y1, x2, y2): over the union ("iou") or over the second box ("iof"), of all pairs [m, n] or row by row [m, 1].
void box_overlap(const at::Tensor& boxes, const at::Tensor& others, std::string_view mode, double eps, bool aligned,
                 at::Tensor& out);

// The complete IoU [1, n] of boxes [4, n] (corners, or with `centred` centre and size) and others as many: less by the distance of the
// centres and by the difference of the angles, which is the second result.
void check_complete_overlap(const at::Tensor& boxes, const at::Tensor& others, bool cross, std::string_view mode,
                            const at::Tensor& out, const at::Tensor& angle);
void complete_overlap(const at::Tensor& boxes, const at::Tensor& others, bool centred, at::Tensor& out,
                      at::Tensor& angle);

}  // namespace softnpu::ops::kernels
