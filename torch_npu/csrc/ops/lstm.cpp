// torch.lstm over whole sequences: one call forward, one backward, instead of PyTorch's loop over steps. What it is not: packed
// sequences, two directions, projections and dropout between layers, which stay PyTorch's loop over the fused cell (rnn.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/without_gil.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/onlooker.h"

namespace npu {
namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Tensors = std::vector<at::Tensor>;
using torch::autograd::AutogradContext;

struct Shape {
  bool has_bias;
  int64_t layers;
};

// What each layer leaves for its gradient, in CANN's order: gates i, j, f, o, then h, c and tanh(c).
constexpr size_t kSaved = 7;

Tensors like_each(const Tensors& tensors) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) result.push_back(empty(tensor.sizes(), tensor.scalar_type()));
  return result;
}

Three forward(const at::Tensor& input, at::TensorList hx, at::TensorList params, const Shape& shape,
              std::array<Tensors, kSaved>& saved) {
  const NPUGuard guard(input.device().index());
  const int64_t steps = input.size(0), batch = input.size(1), hidden = hx[0].size(2);
  const at::ScalarType type = input.scalar_type();
  for (Tensors& list : saved) {
    for (int64_t l = 0; l < shape.layers; ++l) list.push_back(empty({steps, batch, hidden}, type));
  }
  const at::Tensor output = empty({steps, batch, hidden}, type);
  const at::Tensor hy = empty(hx[0].sizes(), type), cy = empty(hx[1].sizes(), type);
  ACLNN(aclnnLSTM)(input, params, hx, std::optional<at::Tensor>(), shape.has_bias, shape.layers, 0.0, true, false,
                   /*batchFirst=*/false, output, hy, cy, at::TensorList(saved[0]), at::TensorList(saved[1]),
                   at::TensorList(saved[2]), at::TensorList(saved[3]), at::TensorList(saved[4]),
                   at::TensorList(saved[5]), at::TensorList(saved[6]));
  return {output, hy, cy};
}

// Arguments in one list: input, h0, c0, parameters. PyTorch's autograd sees them as one call's.
struct Lstm : torch::autograd::Function<Lstm> {
  static Tensors forward(AutogradContext* context, at::TensorList arguments, Shape shape) {
    const at::AutoDispatchBelowADInplaceOrView below;
    std::array<Tensors, kSaved> saved;
    auto [output, hy, cy] = npu::forward(arguments[0], arguments.slice(1, 2), arguments.slice(3), shape, saved);
    Tensors kept = arguments.vec();
    for (const Tensors& list : saved) kept.insert(kept.end(), list.begin(), list.end());
    context->save_for_backward(std::move(kept));
    context->saved_data["arguments"] = static_cast<int64_t>(arguments.size());
    context->saved_data["has_bias"] = shape.has_bias;
    context->saved_data["layers"] = shape.layers;
    context->set_materialize_grads(false);
    return {output, hy, cy};
  }

  static Tensors backward(AutogradContext* context, Tensors gradients) {
    const Tensors kept = context->get_saved_variables();
    const at::TensorList all(kept), arguments = all.slice(0, context->saved_data["arguments"].toInt());
    const Shape shape{context->saved_data["has_bias"].toBool(), context->saved_data["layers"].toInt()};
    Tensors result = at::GradMode::is_enabled() ? differentiable(arguments, shape, gradients)
                                                : fused(arguments, all.slice(arguments.size()), shape, gradients);
    result.emplace_back();  // of `shape`
    return result;
  }

  static Tensors fused(at::TensorList arguments, at::TensorList saved, const Shape& shape, const Tensors& gradients) {
    const NPUGuard guard(arguments[0].device().index());
    const auto list = [&](size_t i) { return saved.slice(i * shape.layers, shape.layers); };
    const auto or_zeros = [](const at::Tensor& gradient, const at::Tensor& like) {
      return gradient.defined() ? gradient : at::zeros_like(like);
    };
    const at::TensorList hx = arguments.slice(1, 2), params = arguments.slice(3);
    Tensors result = like_each(arguments.vec());
    const std::optional<at::Tensor> grad_output = gradients[0].defined() ? std::optional(gradients[0]) : std::nullopt;
    ACLNN(aclnnLstmBackward)(arguments[0], hx, params, grad_output, or_zeros(gradients[1], hx[0]),
                             or_zeros(gradients[2], hx[1]), list(0), list(1), list(2), list(3), list(4), list(5),
                             list(6), std::optional<at::Tensor>(), shape.has_bias, shape.layers, 0.0, true, false,
                             /*batchFirst=*/false, std::array<bool, 4>{true, true, true, true}, result[0], result[1],
                             result[2], at::TensorList(result).slice(3));
    return result;
  }

  // The gradient's own gradient is wanted: PyTorch's loop again, which can be differentiated as often as one likes.
  static Tensors differentiable(at::TensorList arguments, const Shape& shape, const Tensors& gradients) {
    Tensors inputs;
    for (const at::Tensor& argument : arguments)
      inputs.push_back(argument.requires_grad() ? argument.view_as(argument) : argument);
    const at::TensorList given(inputs);
    auto [output, hy, cy] = at::native::lstm(given[0], given.slice(1, 2), given.slice(3), shape.has_bias, shape.layers,
                                             0.0, true, false, /*batch_first=*/false);
    Tensors outputs, of_outputs, wanted;
    const Tensors results{output, hy, cy};
    for (size_t i = 0; i < results.size(); ++i) {
      if (!gradients[i].defined()) continue;
      outputs.push_back(results[i]);
      of_outputs.push_back(gradients[i]);
    }
    for (const at::Tensor& input : inputs) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    const WithoutGil release;
    const Tensors found = torch::autograd::grad(outputs, wanted, of_outputs, true, true, true);
    Tensors result(inputs.size());
    for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
      if (inputs[i].requires_grad()) result[i] = found[next++];
    }
    return result;
  }
};

// What is traced or transformed has no memory yet, and its sizes may be symbols: PyTorch's loop is made of operators it knows.
bool fits(const at::Tensor& input, at::TensorList hx, at::TensorList params, int64_t layers, size_t each,
          bool batch_first) {
  const auto alike = [&](const at::Tensor& t) {
    return unwatched(t) && t.device() == input.device() && t.scalar_type() == input.scalar_type();
  };
  if (hx.size() != 2 || params.size() != each * layers || !alike(input) || !std::all_of(hx.begin(), hx.end(), alike) ||
      !std::all_of(params.begin(), params.end(), alike))
    return false;
  return input.dim() == 3 && input.numel() > 0 && hx[0].dim() == 3 && hx[0].sizes() == hx[1].sizes() &&
         hx[0].size(0) == layers && hx[0].size(1) == input.size(batch_first ? 0 : 1);
}

Three lstm(const at::Tensor& input, at::TensorList hx, at::TensorList params, bool has_bias, int64_t layers,
           double dropout, bool train, bool bidirectional, bool batch_first) {
  const size_t each = has_bias ? 4 : 2;  // a projection adds one
  const bool drops = dropout != 0 && train && layers > 1;
  if (mode_active() || bidirectional || drops || !fits(input, hx, params, layers, each, batch_first))
    return at::native::lstm(input, hx, params, has_bias, layers, dropout, train, bidirectional, batch_first);
  const int64_t hidden = hx[0].size(2);
  for (int64_t l = 0; l < layers; ++l) {
    const int64_t width = l == 0 ? input.size(2) : hidden;
    TORCH_CHECK(params[l * each].sizes() == at::IntArrayRef({4 * hidden, width}) &&
                    params[l * each + 1].sizes() == at::IntArrayRef({4 * hidden, hidden}),
                "lstm: the weights of layer ", l, " must be of shapes ", at::IntArrayRef({4 * hidden, width}), " and ",
                at::IntArrayRef({4 * hidden, hidden}), ", not ", params[l * each].sizes(), " and ",
                params[l * each + 1].sizes());
  }
  // As PyTorch's own: the batch first is a view, and so the output has the strides that its meta function says.
  const auto turned = [&](const at::Tensor& t) { return batch_first ? t.transpose(0, 1) : t; };
  Tensors arguments{turned(input), hx[0], hx[1]};
  arguments.insert(arguments.end(), params.begin(), params.end());
  Tensors results = Lstm::apply(at::TensorList(arguments), Shape{has_bias, layers});
  return {turned(results[0]), results[1], results[2]};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("lstm.input", NPU_FN(lstm)); }

}  // namespace npu
