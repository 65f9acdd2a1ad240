// max_pool2d, the operator without indices: it keeps the numbers of elements for its gradient in int32, half of what PyTorch's operator with
// indices gives and what CANN documents for every chip. Whatever looks into the operator is PyTorch's composition, which has that other one;
// graphs of torch.compile have npu::_max_pool2d (torch_npu/_inductor/decompositions.py).
#include "csrc/ops/max_pool2d.h"

#include <ATen/ops/_to_copy.h>
#include <ATen/ops/max_pool2d_native.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <limits>
#include <tuple>

#include "csrc/cann/strict.h"
#include "csrc/core/info.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/int32.h"
#include "csrc/ops/onlooker.h"
#include "csrc/ops/params.h"
#include "csrc/ops/structured.h"

namespace npu {
namespace {

using torch::autograd::AutogradContext;
using Tensors = torch::autograd::variable_list;

constexpr int64_t kMostIndices = std::numeric_limits<int32_t>::max();

bool takes_all_types() {
  static const bool all = soc_name().starts_with("Ascend950") || !cann::takes_documented_types_only();
  return all;
}

// What indices number.
int64_t plane(const at::Tensor& self) { return self.dim() < 2 ? 0 : self.size(-1) * self.size(-2); }

struct Window {
  at::IntArrayRef kernel, stride, padding, dilation;
  bool ceil;
};

// PyTorch's checks and sizes, with the indices in int32.
struct Meta final : at::meta::structured_max_pool2d_with_indices {
  std::array<at::Tensor, 2> outputs;

  const at::Tensor& maybe_get_output(int64_t i) override { return outputs[i]; }
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options NPU_DIMNAMES) override {
    outputs[i] = new_output(sizes, strides, i == 0 ? options : options.dtype(at::kInt));
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options NPU_DIMNAMES) override {
    set_output_strided(i, sizes, strides, options NPU_NO_DIMNAMES);
  }
};

std::array<at::Tensor, 2> pooled(const at::Tensor& self, const Window& w) {
  if (mode_active()) {  // a mode sees operators of PyTorch's; what is kept is the same, as a checkpoint compares it
    auto [out, indices] = at::max_pool2d_with_indices(self, w.kernel, w.stride, w.padding, w.dilation, w.ceil);
    return {out, at::_to_copy(indices, indices.options().dtype(at::kInt))};
  }
  Meta op;
  op.meta(self, w.kernel, w.stride, w.padding, w.dilation, w.ceil);
  if (op.outputs[0].numel() != 0) {
    ACLNN(aclnnMaxPool2dWithIndices)(self, w.kernel, stride_or(w.stride, w.kernel), w.padding, w.dilation, w.ceil,
                                     op.outputs[0], op.outputs[1]);
  }
  return std::move(op.outputs);
}

struct MaxPool2d : torch::autograd::Function<MaxPool2d> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& self, const Window& w) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [out, indices] = pooled(self, w);
    context->save_for_backward({self, indices});
    context->saved_data["kernel"] = w.kernel;
    context->saved_data["stride"] = w.stride;
    context->saved_data["padding"] = w.padding;
    context->saved_data["dilation"] = w.dilation;
    context->saved_data["ceil"] = w.ceil;
    return out;
  }

  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    if (!gradients[0].defined()) return {at::Tensor(), at::Tensor()};
    const Tensors kept = context->get_saved_variables();
    const auto list = [&](const char* name) { return context->saved_data[name].toIntVector(); };
    // The gradient's own gradient gathers by PyTorch's indices, and a mode may compute with them.
    const bool whole = at::GradMode::is_enabled() || mode_active();
    const at::Tensor indices = whole ? kept[1].to(at::kLong) : kept[1];
    return {at::max_pool2d_with_indices_backward(gradients[0], kept[0], list("kernel"), list("stride"), list("padding"),
                                                 list("dilation"), context->saved_data["ceil"].toBool(), indices),
            at::Tensor()};
  }
};

at::Tensor max_pool2d(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                      at::IntArrayRef dilation, bool ceil) {
  const bool recorded = at::GradMode::is_enabled() && self.requires_grad();
  if (!unwatched(self) || plane(self) > kMostIndices || (mode_active() && !recorded))
    return at::native::max_pool2d(self, kernel, stride, padding, dilation, ceil);
  const NPUGuard guard(self.device().index());
  const Window w{kernel, stride, padding, dilation, ceil};
  return recorded ? MaxPool2d::apply(self, w) : pooled(self, w)[0];
}

std::tuple<at::Tensor, at::Tensor> max_pool2d_numbers(const at::Tensor& self, at::IntArrayRef kernel,
                                                      at::IntArrayRef stride, at::IntArrayRef padding,
                                                      at::IntArrayRef dilation, bool ceil) {
  TORCH_CHECK(plane(self) <= kMostIndices, "_max_pool2d: a plane of ", plane(self),
              " numbers has more than int32 counts; use max_pool2d_with_indices");
  const auto found = pooled(self, {kernel, stride, padding, dilation, ceil});
  return {found[0], found[1]};
}

}  // namespace

at::Tensor pool_operand(const at::Tensor& operand) {
  const bool half = operand.scalar_type() == at::kHalf || operand.scalar_type() == at::kBFloat16;
  return half && !takes_all_types() ? operand.to(at::kFloat) : operand;
}

at::Tensor pool_numbers(const at::Tensor& indices, const at::Tensor& self) {
  return takes_all_types() ? indices : in_int32(indices, plane(self));
}

// Below autograd, and in what an export decomposes, it is PyTorch's composition.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("max_pool2d", NPU_FN(max_pool2d)); }

// max_pool2d_with_indices, with the indices in int32.
TORCH_LIBRARY_FRAGMENT(npu, m) {
  m.def(
      "_max_pool2d(Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode) -> "
      "(Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(npu, PrivateUse1, m) { m.impl("_max_pool2d", NPU_FN(max_pool2d_numbers)); }

}  // namespace npu
