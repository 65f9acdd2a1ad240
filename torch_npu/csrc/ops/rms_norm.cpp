// rms_norm as one operator of the device forward and one backward: PyTorch's fused pair, which brings derivatives of every order. Complex
// numbers, forward-mode derivatives of 16 bits, and sizes that a trace leaves open, are PyTorch's composition. What it is not: npu_rms_norm, whose gradient of gamma is float32 (ops/npu.yaml).
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/_fused_rms_norm_ops.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rms_norm_ops.h>
#include <torch/library.h>

#include <array>
#include <limits>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/npu/autograd.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;

at::ScalarType wide(const at::Tensor& t) { return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// CANN's kernels want a weight.
at::Tensor or_ones(const OptionalTensor& weight, const at::Tensor& input, at::IntArrayRef shape) {
  return weight && weight->defined() ? *weight : at::ones(shape, input.options());
}

// PyTorch's formula computes tangents with rstd, which is float32, and leaves them so.
bool has_narrow_tangent(const at::Tensor& input, const OptionalTensor& weight) {
  return wide(input) != input.scalar_type() && (ops::has_tangent(input) || ops::has_tangent(weight));
}

// What PyTorch has for devices without a kernel of their own: a composition, which any such device's key names.
template <class Op, class... Args>
auto composition(const Args&... args) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name).template typed<typename Op::schema>();
  return op.redispatch(c10::DispatchKeySet(c10::DispatchKey::AutogradCPU), args...);
}

at::Tensor rms_norm(const at::Tensor& input, c10::SymIntArrayRef shape, const OptionalTensor& weight,
                    std::optional<double> eps) {
  if (!input.is_complex() && c10::asIntArrayRefSlowOpt(shape) && !has_narrow_tangent(input, weight))
    return composition<at::_ops::rms_norm>(input, shape, weight, eps);
  at::native::_check_rms_norm_inputs_symint(input, shape, weight.value_or(at::Tensor()));
  // Sizes that a trace leaves open: PyTorch's pair takes numbers, of which its composition reads only how many there are.
  const at::DimVector sizes(shape.size(), -1);
  return std::get<0>(composition<at::_ops::_fused_rms_norm>(input, at::IntArrayRef(sizes), weight, eps));
}

Two fused(const at::Tensor& input, at::IntArrayRef shape, const OptionalTensor& weight, std::optional<double> eps) {
  const NPUGuard guard(input.device().index());
  const int64_t outer = input.dim() - static_cast<int64_t>(shape.size());
  TORCH_CHECK(outer >= 0 && input.sizes().slice(outer) == shape, "rms_norm: an input of ", input.sizes(),
              " does not end in normalized_shape, ", shape);
  at::DimVector sizes(input.sizes().begin(), input.sizes().begin() + outer);
  sizes.resize(input.dim(), 1);
  at::Tensor out = empty(input.sizes(), input.scalar_type()), rstd = empty(sizes, wide(input));
  if (input.numel() == 0) return {out, rstd.fill_(std::numeric_limits<double>::quiet_NaN())};  // of rows of nothing
  const double least = wide(input) == at::kDouble ? std::numeric_limits<double>::epsilon()
                                                  : double{std::numeric_limits<float>::epsilon()};
  ACLNN(aclnnRmsNorm)(input, or_ones(weight, input, shape), eps.value_or(least), out, rstd);
  return {out, rstd};
}

Two backward(const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef shape, const at::Tensor& rstd,
             const OptionalTensor& weight, std::array<bool, 2> wanted) {
  const NPUGuard guard(input.device().index());
  const at::Tensor gamma = or_ones(weight, input, shape);
  at::Tensor grad_input = empty(input.sizes(), input.scalar_type()), grad_gamma = empty(shape, wide(input));
  if (input.numel() == 0) {
    grad_gamma.zero_();
  } else {
    ACLNN(aclnnRmsNormGrad)(grad, input, rstd, gamma, grad_input, grad_gamma);
  }
  const bool weighted = wanted[1] && weight && weight->defined();
  return {wanted[0] ? grad_input : at::Tensor(), weighted ? grad_gamma.to(weight->scalar_type()) : at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("rms_norm", NPU_FN(rms_norm));
  m.impl("_fused_rms_norm", NPU_FN(fused));
  m.impl("_fused_rms_norm_backward", NPU_FN(backward));
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("rms_norm", NPU_FN(rms_norm)); }

}  // namespace npu
