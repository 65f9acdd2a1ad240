// Dropout, and rrelu, whose slopes are drawn: what they keep of the draw is what their gradients need. What it is not: the drawing
// itself (random.cpp). Who calls it: the dispatcher; bit_mask_dropout also csrc/ops/npu.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/generator.h"
#include "csrc/core/graph.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/npu/compose.h"
#include "csrc/ops/params.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

using Generator = std::optional<at::Generator>;

// An output beside `input`: its sizes and, if it is dense, its strides.
at::Tensor beside(const at::Tensor& input, at::ScalarType type) {
  return input.is_non_overlapping_and_dense() ? empty_strided(input.sizes(), input.strides(), type)
                                              : empty(input.sizes(), type);
}
at::Tensor beside(const at::Tensor& input) { return beside(input, input.scalar_type()); }

// The slope of each negative element is drawn, and kept in `noise` for the gradient.
at::Tensor& rrelu_with_noise_out(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                                 const at::Scalar& upper, bool training, Generator generator, at::Tensor& out) {
  TORCH_CHECK(lower.toDouble() <= upper.toDouble(), "Lower bound should be less than or equal to the upper bound");
  TORCH_CHECK(self.sizes() == noise.sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ", self.sizes(),
              " noise.shape = ", noise.sizes());
  const NPUGuard guard(self.device().index());
  if (!out.is_same(self)) resize_out(out, self.sizes());
  if (self.numel() == 0) return out;
  if (!training || !capturing_graph()) {
    const PhiloxSlice slice = training ? next_philox(generator, static_cast<uint64_t>(self.numel())) : PhiloxSlice{};
    ACLNN(aclnnRReluWithNoise)(self, noise, lower, upper, training, slice.seed, slice.offset, out);
    return out;
  }
  // CANN's operator takes no seed from memory.
  noise.uniform_(lower.toDouble(), upper.toDouble(), std::move(generator)).masked_fill_(self.gt(0), 1);
  return out.copy_(self.mul(noise));
}

at::Tensor rrelu_with_noise(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                            bool training, Generator generator) {
  const NPUGuard guard(self.device().index());
  at::Tensor out = beside(self);
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), out);
}

at::Tensor& rrelu_with_noise_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                              bool training, Generator generator) {
  return rrelu_with_noise_out(self, noise, lower, upper, training, std::move(generator), self);
}

// The mask is PyTorch's, a bool an element: aclnnMaskedScale multiplies by its bytes.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  const NPUGuard guard(input.device().index());
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  at::Tensor mask = beside(input, at::kBool);
  if (!train.value_or(true) || p == 0) return {input.clone(), mask.fill_(true)};
  at::Tensor out = beside(input);
  if (p == 1) return {out.zero_(), mask.zero_()};
  if (input.numel() == 0) return {out, mask};
  mask.bernoulli_(1 - p);
  if (input.scalar_type() == at::kDouble) return {input.mul(mask).mul_(1 / (1 - p)), mask};  // CANN's scale is a float
  ACLNN(aclnnMaskedScale)(input, mask.view(at::kByte), 1 / (1 - p), out);
  return {out, mask};
}

at::Tensor native_dropout_backward(const at::Tensor& grad_output, const at::Tensor& mask, double scale) {
  const bool own = mask.scalar_type() == at::kBool && grad_output.is_floating_point() &&
                   mask.sizes() == grad_output.sizes() &&
                   grad_output.scalar_type() != at::kDouble;  // CANN's scale is a float
  if (mask.scalar_type() == at::kBool && !own) return grad_output.mul(mask).mul(scale);
  const NPUGuard guard(grad_output.device().index());
  const at::Tensor out = beside(grad_output);
  if (grad_output.numel() == 0) return out;
  if (own) {
    ACLNN(aclnnMaskedScale)(grad_output, mask.view(at::kByte), scale, out);
    return out;
  }
  // Bits, as _npu_dropout makes them.
  if (scale == 0) return at::Tensor(out).zero_();  // p was 1
  ACLNN(aclnnDropoutDoMask)(grad_output, mask, 1.0 - 1.0 / scale, out);
  return out;
}

}  // namespace

namespace ops {

void bit_mask_dropout(const at::Tensor& input, double p, at::Tensor& out, at::Tensor& mask) {
  if (p == 0) {
    out.copy_(input);
    mask.fill_(255);
    return;
  }
  if (p == 1) {
    out.zero_();
    mask.zero_();
    return;
  }
  const PhiloxDraw draw = draw_philox(std::nullopt, static_cast<uint64_t>(input.numel()));
  if (const CapturedPhilox* in = draw.captured) {
    ACLNN(aclnnDropoutGenMaskV2Tensor)
    (input.sizes(), p, in->seed, in->offset, draw.offset, input.scalar_type(), mask);
  } else {
    ACLNN(aclnnDropoutGenMaskV2)(input.sizes(), p, draw.seed, draw.offset, input.scalar_type(), mask);
  }
  ACLNN(aclnnDropoutDoMask)(input, mask, p, out);
}

}  // namespace ops

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("rrelu_with_noise", NPU_FN(rrelu_with_noise));
  m.impl("rrelu_with_noise_", NPU_FN(rrelu_with_noise_));
  m.impl("rrelu_with_noise.out", NPU_FN(rrelu_with_noise_out));
  m.impl("native_dropout", TORCH_FN(native_dropout));
  m.impl("native_dropout_backward", NPU_FN(native_dropout_backward));
}

}  // namespace npu
