// Quantization-aware training: a tensor rounded to the steps of a quantized type and back, with the mask of what was in its range,
// and the ranges that PyTorch's observers follow. What it is not: quantized tensors, which the npu has none of.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fake_quantize_learnable_per_channel_affine_native.h>
#include <ATen/ops/_fake_quantize_learnable_per_tensor_affine_native.h>
#include <ATen/ops/_fused_moving_avg_obs_fq_helper.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/params.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void check_range(int64_t low, int64_t high) {
  TORCH_CHECK(low <= high, "`quant_min` should be less than or equal to `quant_max`.");
}

void check_zero_point(bool inside) { TORCH_CHECK(inside, "`zero_point` must be between `quant_min` and `quant_max`."); }

Two like(const at::Tensor& self) {
  return {at::empty_like(self, at::MemoryFormat::Preserve),
          at::empty_like(self, self.options().dtype(at::kBool), at::MemoryFormat::Preserve)};
}

Two by_tensor(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, bool enabled, int64_t low,
              int64_t high) {
  const NPUGuard guard(self.device().index());
  Two result = like(self);
  if (self.numel() == 0) return result;
  const auto& [out, mask] = result;
  ACLNN(aclnnFakeQuantPerTensorAffineCachemask)(self, scale, zero_point, enabled ? 1.F : 0.F, low, high, out, mask);
  return result;
}

Two per_tensor(const at::Tensor& self, double scale, int64_t zero_point, int64_t low, int64_t high) {
  check_range(low, high);
  check_zero_point(low <= zero_point && zero_point <= high);
  const at::TensorOptions options = self.options().dtype(at::kFloat);
  return by_tensor(self, at::full({1}, scale, options), at::full({1}, zero_point, options.dtype(at::kInt)), true, low,
                   high);
}

// Waits for the stream: whether it is enabled is a number of CANN's function.
Two per_tensor_of_tensors(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                          const at::Tensor& enabled, int64_t low, int64_t high) {
  check_range(low, high);
  return by_tensor(self, scale, zero_point, enabled.item<int64_t>() != 0, low, high);
}

// Rounded; a NaN is below all, as where it becomes an integer.
at::Tensor levels(const at::Tensor& values, int64_t low) {
  const at::Tensor level = values.round();
  return level.masked_fill(level.ne(level), static_cast<double>(low - 1));
}

// A channel's number beside its elements.
at::Tensor along(const at::Tensor& channels, const at::Tensor& self, int64_t axis) {
  Ints sizes(self.dim(), 1);
  sizes[axis] = channels.numel();
  return channels.view(sizes);
}

// Waits for the stream, as on CUDA: zero points are looked at.
Two per_channel(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point, int64_t axis,
                int64_t low, int64_t high) {
  TORCH_CHECK(scale.scalar_type() == at::kFloat, "Scale must be Float, found ", scale.scalar_type());
  const at::ScalarType type = zero_point.scalar_type();
  TORCH_CHECK(type == at::kInt || type == at::kFloat || type == at::kHalf,
              "Zero-point must be Int32, Float or Half, found ", type);
  TORCH_CHECK(scale.dim() == 1, "scale should be a 1-D tensor");
  TORCH_CHECK(zero_point.dim() == 1, "zero point should be a 1-D tensor");
  TORCH_CHECK(scale.numel() == zero_point.numel(), "scale and zero-point need to have the same dimensions");
  TORCH_CHECK(axis >= 0 && axis < self.dim(), "`axis` must be between 0 and number of dimensions of input");
  TORCH_CHECK(scale.numel() == self.size(axis),
              "dimensions of scale and zero-point are not consistent with input tensor");
  check_range(low, high);
  const NPUGuard guard(self.device().index());
  if (self.numel() == 0) return like(self);
  if (type == at::kInt) {
    check_zero_point(zero_point.ge(low).logical_and(zero_point.le(high)).all().item<bool>());
    Two result = like(self);
    const auto& [out, mask] = result;
    ACLNN(aclnnFakeQuantPerChannelAffineCachemask)(self, scale, zero_point, axis, low, high, out, mask);
    return result;
  }
  const at::Tensor step = along(scale, self, axis), zero = along(zero_point.to(at::kFloat), self, axis);
  const at::Tensor level = levels(self.to(at::kFloat).mul(step.reciprocal()).add(zero), low);
  return {level.clamp(low, high).sub(zero).mul(step).to(self.scalar_type()), level.ge(low).logical_and(level.le(high))};
}

// What a level that is learned gets of a gradient, element by element: of the input, the scale and the zero point.
Three learned(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
              int64_t low, int64_t high, double factor) {
  for (const at::Tensor& tensor : {grad, self, scale, zero_point}) {
    TORCH_CHECK(tensor.scalar_type() == at::kFloat, "_fake_quantize_learnable: expected Float, found ",
                tensor.scalar_type());
  }
  TORCH_CHECK(grad.sizes() == self.sizes(), "`X` and `dY` are not the same size: ", self.sizes(), ", ", grad.sizes());
  check_range(low, high);
  const at::Tensor inverse = scale.reciprocal(), level = levels(self.mul(inverse).add(zero_point), low);
  const at::Tensor below = level.lt(low), above = level.gt(high), outside = below.logical_or(above);
  const at::Tensor inside = level.sub(zero_point).mul(scale).sub(self).mul(inverse);
  const at::Tensor end = at::where(below, zero_point.neg().add(low), zero_point.neg().add(high));
  return {grad.masked_fill(outside, 0), grad.mul(at::where(outside, end, inside)).mul(factor),
          grad.mul(scale).mul(-factor).masked_fill(outside.logical_not(), 0)};
}

Three learnable_per_tensor_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale,
                                    const at::Tensor& zero_point, int64_t low, int64_t high, double factor) {
  const NPUGuard guard(self.device().index());
  if (self.numel() == 0) return {self, scale, zero_point};
  const at::Tensor zero = zero_point.add(0.5).clamp(low, high).trunc();
  const auto [grad_self, grad_scale, grad_zero] = learned(grad, self, scale, zero, low, high, factor);
  return {grad_self, grad_scale.sum().unsqueeze(0), grad_zero.sum().unsqueeze(0)};
}

Three learnable_per_channel_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& scale,
                                     const at::Tensor& zero_point, int64_t axis, int64_t low, int64_t high,
                                     double factor) {
  TORCH_CHECK(axis >= 0 && axis < self.dim(), "`axis` must be between 0 and number of dimensions of input");
  TORCH_CHECK(scale.numel() == self.size(axis) && zero_point.numel() == scale.numel(),
              "dimensions of scale and zero-point are not consistent with input tensor");
  const NPUGuard guard(self.device().index());
  if (self.numel() == 0) return {self, scale, zero_point};
  const at::Tensor zero = zero_point.round().clamp(low, high);
  const auto [grad_self, grad_scale, grad_zero] =
      learned(grad, self, along(scale, self, axis), along(zero, self, axis), low, high, factor);
  Ints others;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (dim != axis) others.push_back(dim);
  }
  if (others.empty()) return {grad_self, grad_scale, grad_zero};
  return {grad_self, grad_scale.sum(others), grad_zero.sum(others)};
}

// Scales and zero points of ranges, by the CPU's own operator, which looks at no number of what it is given here. Waits for the stream.
void choose(const at::Tensor& least, const at::Tensor& most, at::Tensor& scale, at::Tensor& zero_point, int64_t low,
            int64_t high, bool by_row, bool symmetric) {
  at::Tensor mins = least.cpu(), maxs = most.cpu(), scales = scale.cpu(), zeros = zero_point.cpu();
  const at::Tensor none = at::zeros({by_row ? mins.numel() : 1, 1}, at::kFloat);
  at::_fused_moving_avg_obs_fq_helper(none, at::zeros({1}, at::kLong), at::ones({1}, at::kLong), mins, maxs, scales,
                                      zeros, 0, low, high, 0, by_row, symmetric);
  scale.copy_(scales);
  zero_point.copy_(zeros);
}

void follow(const at::Tensor& running, const at::Tensor& seen, double share) {
  running.copy_(at::where(running.isinf(), seen, running.add(seen.sub(running), share)));
}

Two observed(const at::Tensor& self, const at::Tensor& observer_on, const at::Tensor& fake_quant_on, at::Tensor& least,
             at::Tensor& most, at::Tensor& scale, at::Tensor& zero_point, double share, int64_t low, int64_t high,
             int64_t axis, bool by_row, bool symmetric) {
  TORCH_CHECK(!by_row || axis == 0,
              "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0, got ", axis);
  TORCH_CHECK(axis < self.dim(), "Error in fused_moving_avg_obs_fake_quant: ch_axis must be < self.dim()");
  check_range(low, high);
  const NPUGuard guard(self.device().index());
  if (by_row && least.numel() == 0) {
    for (const auto& [tensor, value] :
         {std::pair<at::Tensor&, float>{least, kInfinity}, {most, -kInfinity}, {scale, 1}, {zero_point, 0}}) {
      resize_tensor(tensor, {self.size(axis)});
      tensor.fill_(value);
    }
  }
  if (observer_on.item<int64_t>() != 0) {
    const at::Tensor rows = by_row ? self.flatten(1) : self;
    const auto [low_seen, high_seen] = by_row ? at::aminmax(rows, 1) : at::aminmax(rows);
    follow(least, low_seen.to(least.scalar_type()), share);
    follow(most, high_seen.to(most.scalar_type()), share);
  }
  if (fake_quant_on.item<int64_t>() == 0) {
    return {self.clone(), at::ones_like(self, self.options().dtype(at::kBool), at::MemoryFormat::Preserve)};
  }
  choose(least, most, scale, zero_point, low, high, by_row, symmetric);
  return by_row ? per_channel(self, scale, zero_point, axis, low, high)
                : by_tensor(self, scale, zero_point, true, low, high);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fake_quantize_per_tensor_affine_cachemask", NPU_FN(per_tensor));
  m.impl("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", NPU_FN(per_tensor_of_tensors));
  m.impl("fake_quantize_per_channel_affine_cachemask", NPU_FN(per_channel));
  m.impl("_fake_quantize_learnable_per_tensor_affine", NPU_FN(at::native::_fake_quantize_learnable_per_tensor_affine));
  m.impl("_fake_quantize_learnable_per_tensor_affine_backward", NPU_FN(learnable_per_tensor_backward));
  m.impl("_fake_quantize_learnable_per_channel_affine",
         NPU_FN(at::native::_fake_quantize_learnable_per_channel_affine));
  m.impl("_fake_quantize_learnable_per_channel_affine_backward", NPU_FN(learnable_per_channel_backward));
  m.impl("_fused_moving_avg_obs_fq_helper", NPU_FN(observed));
}

}  // namespace npu
