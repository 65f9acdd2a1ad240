// How much boxes lie over each other. Who uses it: operators of detection that choose boxes.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>

namespace npu::ops {

// Intersection over union of boxes between any two opposite corners, [.., boxes, boxes]; 0 for boxes without area.
inline at::Tensor overlaps(const at::Tensor& boxes) {
  const at::Tensor a = boxes.narrow(-1, 0, 2), b = boxes.narrow(-1, 2, 2), low = at::minimum(a, b),
                   high = at::maximum(a, b);
  const at::Tensor area = (high - low).prod(-1);
  const at::Tensor side =
      at::minimum(high.unsqueeze(-2), high.unsqueeze(-3)) - at::maximum(low.unsqueeze(-2), low.unsqueeze(-3));
  const at::Tensor common = side.clamp_min(0).prod(-1), all = area.unsqueeze(-1) + area.unsqueeze(-2) - common;
  const at::Tensor real = area.gt(0).unsqueeze(-1).logical_and(area.gt(0).unsqueeze(-2));
  return at::where(real, common / at::where(real, all, 1), 0);
}

}  // namespace npu::ops
