// Boxes of detectors: the choice of boxes that do not overlap, a composition of PyTorch's operators in float32, and the checks of pooled regions.
// Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

Pair chosen_boxes(const at::Tensor& boxes, const at::Tensor& scores, const at::Scalar& most, const at::Tensor& overlap,
                  const at::Tensor& least);
struct RegionGrid {
  double scale;
  int64_t height, width, samples, end_mode;
};
void check_regions(const at::Tensor& input, const at::Tensor& rois, const RegionGrid& grid);
void check_regions_backward(const at::Tensor& grad, const at::Tensor& rois, at::IntArrayRef sizes,
                            const RegionGrid& grid);

// Decoding on a server with pages: the next token's inputs in place.
struct StepNumbers {
  int64_t sequences, queries, block;
};
void advance_step(const at::Tensor& tokens, const at::Tensor& sampled, const at::Tensor& positions,
                  const at::Tensor& lengths, const at::Tensor& slots, const at::Tensor& tables, StepNumbers n,
                  const OptionalTensor& speculated, const OptionalTensor& accepted);

}  // namespace npu::ops
