// torch.lstm over whole sequences: one operator forward, _npu_lstm, and one backward, instead of PyTorch's loop over steps; between layers
// that drop, one a layer. Traces see these operators. What it is not: packed sequences and projections, which stay PyTorch's loop over the
// fused cell (rnn.cpp), as does what torch.func, a subclass of tensors or a dispatch mode of the program's looks into.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/lstm_native.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "csrc/core/device.h"
#include "csrc/core/without_gil.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/npu/whole_lstm.h"
#include "csrc/ops/onlooker.h"
#include "npu_ops.h"

namespace npu {
namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Tensors = std::vector<at::Tensor>;
using Shape = ops::WholeLstm;
using torch::autograd::AutogradContext;

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Arguments in one list: input, h0, c0, parameters. PyTorch's autograd sees them as one call's.
struct Lstm : torch::autograd::Function<Lstm> {
  static Tensors forward(AutogradContext* context, at::TensorList arguments, Shape shape) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [output, hy, cy, steps] = ops::_npu_lstm(arguments[0], arguments.slice(1, 2), arguments.slice(3),
                                                  shape.has_bias, shape.layers, shape.two_ways);
    Tensors kept = arguments.vec();
    kept.push_back(steps);
    context->save_for_backward(std::move(kept));
    context->saved_data["has_bias"] = shape.has_bias;
    context->saved_data["layers"] = shape.layers;
    context->saved_data["two_ways"] = shape.two_ways;
    context->set_materialize_grads(false);
    return {output, hy, cy};
  }

  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    const Tensors kept = context->get_saved_variables();
    const at::TensorList all(kept), arguments = all.slice(0, all.size() - 1);
    const Shape shape{context->saved_data["has_bias"].toBool(), context->saved_data["layers"].toInt(),
                      context->saved_data["two_ways"].toBool()};
    Tensors result = at::GradMode::is_enabled() ? differentiable(arguments, shape, gradients)
                                                : fused(arguments, kept.back(), shape, gradients);
    result.emplace_back();  // of `shape`
    return result;
  }

  static Tensors fused(at::TensorList arguments, const at::Tensor& steps, const Shape& shape,
                       const Tensors& gradients) {
    auto [of_input, of_hx, of_cx, of_params] = ops::_npu_lstm_backward(
        if_defined(gradients[0]), if_defined(gradients[1]), if_defined(gradients[2]), arguments[0],
        arguments.slice(1, 2), arguments.slice(3), steps, shape.has_bias, shape.layers, shape.two_ways);
    const at::AutoDispatchBelowADInplaceOrView
        below;  // parts with versions of their own: what is written is one gradient
    Tensors result{of_input, of_hx, of_cx};
    for (at::Tensor& part : ops::parted(of_params, arguments.slice(3))) result.push_back(std::move(part));
    return result;
  }

  // The gradient's own gradient is wanted: PyTorch's loop again, which can be differentiated as often as one likes.
  static Tensors differentiable(at::TensorList arguments, const Shape& shape, const Tensors& gradients) {
    Tensors inputs;
    for (const at::Tensor& argument : arguments)
      inputs.push_back(argument.requires_grad() ? argument.view_as(argument) : argument);
    const at::TensorList given(inputs);
    auto [output, hy, cy] = at::native::lstm(given[0], given.slice(1, 2), given.slice(3), shape.has_bias, shape.layers,
                                             0.0, true, shape.two_ways, /*batch_first=*/false);
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

// A dispatch mode of the program's sees PyTorch's loop (onlooker.h). Those of a trace do not count.
bool looked_into() { return mode_active() && !detail::traced(); }

bool fits(const at::Tensor& input, at::TensorList hx, at::TensorList params, const Shape& shape, bool batch_first) {
  const auto alike = [&](const at::Tensor& t) {
    return unwatched_but_by_traces(t) && t.device() == input.device() && t.scalar_type() == input.scalar_type();
  };
  if (hx.size() != 2 || static_cast<int64_t>(params.size()) != shape.entries() * shape.each() || !alike(input) ||
      !std::all_of(hx.begin(), hx.end(), alike) || !std::all_of(params.begin(), params.end(), alike))
    return false;
  // A batch may be empty, or of a size that a trace does not know.
  return input.dim() == 3 && input.sym_size(batch_first ? 1 : 0) > 0 && input.sym_size(2) > 0 && hx[0].dim() == 3 &&
         hx[0].sym_sizes() == hx[1].sym_sizes() && hx[0].sym_size(0) == shape.entries() &&
         hx[0].sym_size(1) == input.sym_size(batch_first ? 0 : 1);
}

void check_weights(const at::Tensor& input, at::TensorList hx, at::TensorList params, const Shape& shape) {
  const c10::SymInt hidden = hx[0].sym_size(2);
  for (int64_t entry = 0; entry < shape.entries(); ++entry) {
    const at::Tensor &ih = params[entry * shape.each()], &hh = params[entry * shape.each() + 1];
    const c10::SymInt wide[] = {hidden * 4, entry < shape.ways() ? input.sym_size(2) : hidden * shape.ways()};
    const c10::SymInt square[] = {hidden * 4, hidden};
    TORCH_CHECK(ih.sym_sizes() == c10::SymIntArrayRef(wide) && hh.sym_sizes() == c10::SymIntArrayRef(square),
                "lstm: the weights of layer ", entry / shape.ways(), " must be of shapes ", c10::SymIntArrayRef(wide),
                " and ", c10::SymIntArrayRef(square), ", not ", ih.sym_sizes(), " and ", hh.sym_sizes());
  }
}

// `recorded`: autograd may want a gradient. The steps first.
template <bool recorded>
Three layers(const at::Tensor& input, at::TensorList hx, at::TensorList params, const Shape& shape) {
  if constexpr (!recorded) {
    auto [output, hy, cy, steps] = ops::_npu_lstm(input, hx, params, shape.has_bias, shape.layers, shape.two_ways);
    return {output, hy, cy};
  }
  Tensors arguments{input, hx[0], hx[1]};
  arguments.insert(arguments.end(), params.begin(), params.end());
  const Tensors results = Lstm::apply(at::TensorList(arguments), shape);
  return {results[0], results[1], results[2]};
}

// Each layer by itself, and a dropout as PyTorch's loop draws it between two.
template <bool recorded>
Three dropping(const at::Tensor& input, at::TensorList hx, at::TensorList params, const Shape& shape, double dropout) {
  const Shape one{shape.has_bias, 1, shape.two_ways};
  Tensors last_h, last_c;
  at::Tensor x = input;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    if (layer > 0) x = at::dropout(x, dropout, true);
    const auto mine = [&](const at::Tensor& states) { return states.narrow(0, layer * one.entries(), one.entries()); };
    const int64_t count = one.entries() * one.each();
    auto [output, hy, cy] = layers<recorded>(x, {mine(hx[0]), mine(hx[1])}, params.slice(layer * count, count), one);
    x = output;
    last_h.push_back(hy);
    last_c.push_back(cy);
  }
  return {x, at::cat(last_h), at::cat(last_c)};
}

template <bool recorded>
Three lstm(const at::Tensor& input, at::TensorList hx, at::TensorList params, bool has_bias, int64_t count,
           double dropout, bool train, bool bidirectional, bool batch_first) {
  const Shape shape{has_bias, count, bidirectional};  // a projection adds a parameter to each entry
  if (looked_into() || !fits(input, hx, params, shape, batch_first))
    return at::native::lstm(input, hx, params, has_bias, count, dropout, train, bidirectional, batch_first);
  check_weights(input, hx, params, shape);
  const NPUGuard guard(input.device().index());
  // As PyTorch's own: the batch first is a view, and so the output has the strides that its meta function says.
  const auto turned = [&](const at::Tensor& t) { return batch_first ? t.transpose(0, 1) : t; };
  auto [output, hy, cy] = dropout != 0 && train && count > 1
                              ? dropping<recorded>(turned(input), hx, params, shape, dropout)
                              : layers<recorded>(turned(input), hx, params, shape);
  return {turned(output), hy, cy};
}

}  // namespace

// Below autograd too: in inference mode it would be the loop. What an export decomposes keeps such an operator whole.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("lstm.input", NPU_FN(lstm<false>)); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("lstm.input", NPU_FN(lstm<true>)); }

}  // namespace npu
