// The untemplated half of autograd.h.
#include "csrc/ops/npu/autograd.h"

#include <torch/csrc/autograd/functions/basic_ops.h>

#include <algorithm>

namespace npu::ops {

std::vector<SavedVariable> saved(at::TensorList tensors) {
  std::vector<SavedVariable> out;
  out.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) out.push_back(saved(tensor));
  return out;
}

std::optional<at::Tensor> unpack_optional(const SavedVariable& tensor) {
  at::Tensor value = tensor.unpack();
  return value.defined() ? std::optional<at::Tensor>(std::move(value)) : std::nullopt;
}

std::vector<at::Tensor> unpack_list(const std::vector<SavedVariable>& tensors) {
  std::vector<at::Tensor> out;
  out.reserve(tensors.size());
  for (const SavedVariable& tensor : tensors) out.push_back(tensor.unpack());
  return out;
}

void made_by(const at::Tensor& result, const NodeOf<torch::autograd::Node>& node) {
  // Codes of 4 bits, or of hifloat8, in integers have no gradient where the same result of another type has one.
  const bool codes = result.defined() && !torch::autograd::isDifferentiableType(result.scalar_type());
  torch::autograd::set_history(codes ? at::Tensor() : result, node);
  if (result.defined() && result.is_floating_point() && result.element_size() == 1) {
    node->mutable_input_metadata(result.output_nr()).set_grad_dtype(std::nullopt);
  }
}

at::Tensor gradient(const variable_list& gradients, size_t index, const torch::autograd::Node& node) {
  if (gradients[index].defined()) return gradients[index];
  const auto& result = node.input_metadata(index);
  return result.was_default_constructed() ? at::Tensor() : result.zeros_like();
}

bool has_tangent(const at::Tensor& tensor) { return tensor.defined() && tensor._fw_grad(/*level=*/0).defined(); }

bool has_tangent(const std::optional<at::Tensor>& tensor) { return tensor && has_tangent(*tensor); }

bool has_tangent(at::TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& t) { return has_tangent(t); });
}

bool has_tangent(const std::optional<at::TensorList>& tensors) { return tensors && has_tangent(*tensors); }

void refuse_forward_ad(const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "Trying to use forward AD with ", name, " that does not support it; use backward ",
                              "mode (torch.autograd.grad, torch.func.jacrev)");
}

void refuse_derivative(const char* op, const char* name, const std::optional<at::Tensor>& operand) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !(operand && operand->defined() && operand->requires_grad() && at::GradMode::is_enabled()), op,
      ": the derivative for '", name, "' is not implemented; give ", name, ".detach()");
}

NodePtr no_derivative(const char* why, torch::autograd::edge_list&& operands) {
  return make_node<torch::autograd::Error>(why, std::move(operands));
}

void refuse_gradient(const NodePtr& node, at::TensorList results) {
  for (const at::Tensor& result : results) {
    if (result.defined() && torch::autograd::isDifferentiableType(result.scalar_type())) {
      torch::autograd::set_history(result, node);
    }
  }
}

}  // namespace npu::ops
