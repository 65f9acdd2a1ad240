// The gradients of a composition for its operands, by PyTorch's autograd: what backward operators of compositions are. They have gradients of
// their own where an operand asks for them; a tangent of forward-mode AD is refused of operands, which are detached, and
// goes through the gradient. Who uses it: files of compositions beside it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <vector>

#include "csrc/core/without_gil.h"
#include "csrc/ops/npu/autograd.h"

namespace npu::ops {

// What autograd may save: tensors made in inference mode are copied. Inside a guard that leaves that mode.
inline at::Tensor savable(const at::Tensor& t) { return t.defined() && t.is_inference() ? t.clone() : t; }

template <class F>
std::vector<at::Tensor> gradients_of(const char* op, const F& f, std::vector<at::Tensor> operands,
                                     const at::Tensor& grad) {
  refuse_forward_ad(op, at::TensorList(operands));
  bool again = grad.requires_grad();
  for (const at::Tensor& t : operands) again = again || t.requires_grad();
  again = again && at::GradMode::is_enabled();
  std::optional<c10::InferenceMode> off;  // alone it would lift other settings of the caller, too
  if (c10::InferenceMode::is_enabled()) off.emplace(false);
  const at::AutoGradMode on(true);
  for (at::Tensor& t : operands) t = again && t.requires_grad() ? at::alias(t) : savable(t).detach().requires_grad_();
  const at::Tensor out = f(operands);
  const WithoutGil release;
  return torch::autograd::grad({out}, operands, {savable(grad)}, std::nullopt, /*create_graph=*/again,
                               /*allow_unused=*/true);
}

}  // namespace npu::ops
