// What the generated gradients of ops/npu.yaml stand on: saving and unpacking arguments, and refusing forward-mode AD. The nodes
// themselves are generated (tools/codegen/npu.py), as PyTorch generates its own. Installed for users' operators: see result.h.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <optional>
#include <string>
#include <vector>

#include "../../cann/export.h"
#include "../../core/torch_version.h"

namespace npu::ops {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

inline SavedVariable saved(const at::Tensor& tensor) { return SavedVariable(tensor, false); }
inline SavedVariable saved(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? SavedVariable(*tensor, false) : SavedVariable();
}
NPU_API std::vector<SavedVariable> saved(at::TensorList tensors);
NPU_API std::optional<at::Tensor> unpack_optional(const SavedVariable& tensor);
NPU_API std::vector<at::Tensor> unpack_list(const std::vector<SavedVariable>& tensors);

// A result is the node's. One of 8 or 4 bits takes gradients of any type: theirs is none to compute in.
NPU_API void made_by(const at::Tensor& result, const NodeOf<torch::autograd::Node>& node);

// The gradient of an output that nothing flowed into is zero; that of one that is None undefined.
NPU_API at::Tensor gradient(const variable_list& gradients, size_t index, const torch::autograd::Node& node);

// Whether an operand has a tangent of forward-mode AD. Asked of every operand, whether or not backward mode records the call: a result
// without tangent would be a derivative of zero.
NPU_API bool has_tangent(const at::Tensor& tensor);
NPU_API bool has_tangent(const std::optional<at::Tensor>& tensor);
NPU_API bool has_tangent(at::TensorList tensors);
NPU_API bool has_tangent(const std::optional<at::TensorList>& tensors);
[[noreturn]] NPU_API void refuse_forward_ad(const char* name);
template <class... T>
void refuse_forward_ad(const char* name, const T&... operands) {
  if ((has_tangent(operands) || ...)) refuse_forward_ad(name);
}

// Of an operand that changes the result and has no gradient, where one is asked of it: PyTorch's words at the call, not a gradient of None.
NPU_API void refuse_derivative(const char* op, const char* name, const std::optional<at::Tensor>& operand);

// Of an operator without derivative: the node whose backward pass says `why`, and results that lead to it. Integers do not.
using NodePtr = NodeOf<torch::autograd::Node>;
NPU_API NodePtr no_derivative(const char* why, torch::autograd::edge_list&& operands);
NPU_API void refuse_gradient(const NodePtr& node, at::TensorList results);

// Gradients in the order of edges: a tensor is one, a list as many as it has members.
inline void put(variable_list& edges, size_t& next, at::Tensor value) { edges.at(next++) = std::move(value); }
inline void put(variable_list& edges, size_t& next, const std::vector<at::Tensor>& values) {
  for (const at::Tensor& value : values) edges.at(next++) = value;
}

}  // namespace npu::ops
