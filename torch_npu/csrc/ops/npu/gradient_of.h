// The gradients of a composition for its operands, by PyTorch's autograd: what backward operators of compositions are. Who uses it: files of
// compositions beside it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <vector>

namespace npu::ops {

template <class F>
std::vector<at::Tensor> gradients_of(const F& f, std::vector<at::Tensor> operands, const at::Tensor& grad) {
  const at::AutoGradMode on(true);
  for (at::Tensor& t : operands) t = t.detach().requires_grad_();
  const at::Tensor out = f(operands);
  return torch::autograd::grad({out}, operands, {grad}, std::nullopt, /*create_graph=*/false, /*allow_unused=*/true);
}

}  // namespace npu::ops
