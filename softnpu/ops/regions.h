// Regions of images pooled to a grid by bilinear samples, and convolutions whose samples lie off the grid, with their gradients. Who calls it:
// expressions of ops/aclnn.yaml that name it as their header; check_… in phase one.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "softnpu/ops/absent.h"

namespace softnpu::ops::kernels {

// Regions [count, 5]: the number of an image, x0, y0, x1 and y1.
struct RegionGrid {
  double scale;
  int64_t height, width, samples, end_mode;
};
void check_regions(const at::Tensor& x, const at::Tensor& rois, const RegionGrid& grid, const at::Tensor& out);
void pool_regions(const at::Tensor& x, const at::Tensor& rois, const RegionGrid& grid, at::Tensor& out);
void check_regions_backward(const at::Tensor& grad, const at::Tensor& rois, at::IntArrayRef sizes,
                            const RegionGrid& grid, const at::Tensor& out);
void pool_regions_backward(const at::Tensor& grad, const at::Tensor& rois, const RegionGrid& grid, at::Tensor& out);

struct Deformation {
  at::IntArrayRef kernel, stride, padding, dilation;
  int64_t groups, offset_groups;
  bool masked;
};
struct Deformed {
  const at::Tensor &x, &weight, &offset;
  const std::optional<at::Tensor>& bias = kAbsentOperand;
};
void check_deformed(const Deformed& of, const Deformation& o, const at::Tensor& out, const at::Tensor& samples);
void deformed_convolution(const Deformed& of, const Deformation& o, at::Tensor& out, at::Tensor& samples);
struct DeformedGradients {
  at::Tensor &x, &weight, &offset, &bias;
};
void check_deformed_backward(const Deformed& of, const at::Tensor& grad, const at::Tensor& samples,
                             const Deformation& o, const DeformedGradients& made);
void deformed_convolution_backward(const Deformed& of, const at::Tensor& grad, const at::Tensor& samples,
                                   const Deformation& o, const DeformedGradients& made);

}  // namespace softnpu::ops::kernels
