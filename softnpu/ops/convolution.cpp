// Convolution forward and backward, all ranks, by oneDNN through ATen. Half precision computes in fp32 and rounds once
// (ATen's CPU fp16 convolution is eighty times slower).
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/conv_tbc.h>
#include <ATen/ops/conv_tbc_backward.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/place.h"
#include "softnpu/ops/retyped.h"
#include "softnpu/ops/scratch.h"
#include "softnpu/ops/widen.h"

namespace softnpu::ops::kernels {

namespace {

bool eight_bits(const Tensor& t) { return is_hifloat8(t) || t.scalar_type() == at::kFloat8_e4m3fn; }

Tensor numbers_of(const Tensor& t) { return is_hifloat8(t) ? hifloat8_values(t) : t.to(at::kFloat); }

}  // namespace

void need_convolved(const Tensor& input, const OptionalTensor& bias, IntArrayRef dilation, bool transposed) {
  TORCH_CHECK(input.is_floating_point() || is_hifloat8(input) || input.scalar_type() == at::kLong ||
                  (!transposed && c10::multiply_integers(dilation) == 1),
              "input: transposed or dilated, integers are int64");
  TORCH_CHECK(input.scalar_type() != at::kFloat8_e4m3fn || (transposed && !passed(bias)),
              "input: 8-bit floats are convolved transposed and without bias alone");
}

void need_bias_type(const Tensor& input, const OptionalTensor& bias) {
  if (!passed(bias)) return;
  const at::ScalarType type = bias->scalar_type();
  const bool small = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  TORCH_CHECK(is_hifloat8(input) ? small : type == input.scalar_type(), "bias is of ", type, " for an operand of ",
              input.scalar_type(),
              is_hifloat8(input) ? " (hifloat8), with which float32, float16 and bfloat16 go" : "");
}

void convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, IntArrayRef stride,
                 IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups,
                 Tensor& out) {
  if (eight_bits(input)) {
    const OptionalTensor added = passed(bias) ? OptionalTensor(bias->to(at::kFloat)) : std::nullopt;
    return put(out, at::convolution(numbers_of(input), numbers_of(weight), added, stride, padding, dilation, transposed,
                                    output_padding, groups));
  }
  OptionalTensor wide_bias =
      passed(bias) ? OptionalTensor(bias->to(is_narrow(weight) ? at::kFloat : weight.scalar_type())) : std::nullopt;
  const Tensor x = widen(input, Slot::kFirst), w = widen(weight, Slot::kSecond);
  Place place({&out}, {input, weight});
  place.put({at::convolution(x, w, wide_bias, stride, padding, dilation, transposed, output_padding, groups)});
}

void convolution_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight, IntArrayRef stride,
                          IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                          int64_t groups, at::ArrayRef<bool> wanted, Tensor& grad_input, Tensor& grad_weight,
                          Tensor& grad_bias) {
  // oneDNN reads as much of the gradient as the result has.
  if (static_cast<int64_t>(std::min({stride.size(), padding.size(), dilation.size()})) == input.dim() - 2) {
    const std::vector<int64_t> sizes =
        transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride,
                                                 dilation, groups)
                   : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
    TORCH_CHECK(gradient.sizes().equals(sizes), "gradOutput must have the sizes ", IntArrayRef(sizes),
                " of the result, it has ", gradient.sizes());
  }
  std::array<bool, 3> need = mask<3>(wanted);
  need[0] = need[0] && grad_input.defined();
  need[1] = need[1] && grad_weight.defined();
  need[2] = need[2] && grad_bias.defined();
  // How many numbers a bias has; the declared biasSizes says the same.
  int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  const Tensor dy = widen(gradient, Slot::kThird), x = widen(input, Slot::kFirst), w = widen(weight, Slot::kSecond);
  Place place({&grad_input, &grad_weight, &grad_bias}, {gradient, input, weight});
  auto [gi, gw, gb] = at::convolution_backward(dy, x, w, at::IntArrayRef(channels), stride, padding, dilation,
                                               transposed, output_padding, groups, need);
  place.put({need[0] ? gi : Tensor(), need[1] ? gw : Tensor(), need[2] ? gb : Tensor()});
}

namespace {

// ATen's kernels of time, batch, channel ask for a bias.
Tensor tbc_bias(const OptionalTensor& bias, const Tensor& weight) {
  return bias ? widen(*bias) : at::zeros({weight.size(2)}, weight.options());
}

}  // namespace

void conv_tbc(const Tensor& input, const Tensor& weight, const OptionalTensor& bias, int64_t pad, Tensor& out) {
  if (is_hifloat8(input)) {
    const Tensor w = hifloat8_values(weight), none = at::zeros({w.size(2)}, w.options());
    return put(out, at::conv_tbc(hifloat8_values(input), w, passed(bias) ? bias->to(at::kFloat) : none, pad));
  }
  const Tensor w = widen(weight);
  put(out, at::conv_tbc(widen(input), w, tbc_bias(bias, w), pad));
}

void need_weight_gradient(const Tensor& weight, const Tensor& gradient) {
  TORCH_CHECK(gradient.scalar_type() == weight.scalar_type() || (eight_bits(gradient) && weight.is_floating_point()),
              "gradWeight is of ", gradient.scalar_type(), " for weight of ", weight.scalar_type());
}

void conv_tbc_backward(const Tensor& gradient, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                       int64_t pad, Tensor& grad_input, Tensor& grad_weight, Tensor& grad_bias) {
  const auto wider = [&](const Tensor& t) {
    return eight_bits(grad_weight) ? from_16_bit(t) : widen(t);
  };  // one rounding
  const Tensor w = wider(weight);
  auto [gi, gw, gb] = at::conv_tbc_backward(wider(gradient), wider(input), w, tbc_bias(bias, w), pad);
  put(grad_input, gi);
  put(grad_weight, gw);
  put(grad_bias, gb);
}

}  // namespace softnpu::ops::kernels
