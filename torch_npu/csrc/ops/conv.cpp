// Convolution and its gradient, all dimensions and transposed: what PyTorch hands to a device as convolution_overrideable.
// What it is not: padding modes or batching of 3-D inputs, which PyTorch does before. Results are contiguous, whatever the strides
// of the operands: PyTorch's meta function says so of every such device, and compiled graphs rely on it.
#include <ATen/core/Tensor.h>
#include <ATen/native/ConvUtils.h>
#include <torch/library.h>

#include <algorithm>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/operands.h"
#include "csrc/ops/params.h"

namespace npu {
namespace {

std::vector<int64_t> output_size(const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
                                 at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                 at::IntArrayRef output_padding, int64_t groups) {
  return transposed ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride,
                                                  dilation, groups)
                    : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
}

void check_window(const at::Tensor& weight, at::IntArrayRef stride, at::IntArrayRef dilation, bool transposed,
                  at::IntArrayRef output_padding) {
  for (int64_t d = 2; d < weight.dim(); ++d) {
    const auto i = static_cast<size_t>(d - 2);
    TORCH_CHECK(weight.size(d) > 0, "kernel size should be greater than zero, but got ", weight.sizes().slice(2));
    TORCH_CHECK(dilation[i] > 0, "dilation should be greater than zero, but got ", dilation);
    TORCH_CHECK(!transposed || output_padding[i] < std::max(stride[i], dilation[i]),
                "output padding must be smaller than either stride or dilation, but got output_padding ",
                output_padding, ", stride ", stride, " and dilation ", dilation);
  }
}

// PyTorch's own composition does not ask it, and a kernel would read behind the gradient.
void check_gradient(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
                    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                    at::IntArrayRef output_padding, int64_t groups) {
  TORCH_CHECK(input.dim() == weight.dim() && input.dim() > 2,
              "convolution_backward: input must have the dimensions of ", "weight, ", weight.dim(), ", it has ",
              input.dim());
  const int64_t channels = transposed ? weight.size(0) : weight.size(1) * groups;
  TORCH_CHECK(input.size(1) == channels, "convolution_backward: input must have ", channels,
              " channels for a weight of ", weight.sizes(), ", it has the sizes ", input.sizes());
  const std::vector<int64_t> wanted =
      output_size(input, weight, stride, padding, dilation, transposed, output_padding, groups);
  TORCH_CHECK(grad_output.sizes().equals(wanted), "convolution_backward: grad_output must have the sizes ",
              at::IntArrayRef(wanted), " of the result, it has ", grad_output.sizes());
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.scalar_type(), ") and weight type (",
              weight.scalar_type(), ") should be the same");
  check_computed("convolution", input, {at::kFloat8_e4m3fn});
  check_window(weight, stride, dilation, transposed, output_padding);
  const NPUGuard guard(input.device().index());
  const at::Tensor output = empty(
      output_size(input, weight, stride, padding, dilation, transposed, output_padding, groups), input.scalar_type());
  if (output.numel()) {
    ACLNN(aclnnConvolution)(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, output,
                            conv_math_type());
  }
  return output;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& grad_output,
                                                                    const at::Tensor& input, const at::Tensor& weight,
                                                                    at::IntArrayRef stride, at::IntArrayRef padding,
                                                                    at::IntArrayRef dilation, bool transposed,
                                                                    at::IntArrayRef output_padding, int64_t groups,
                                                                    std::array<bool, 3> mask) {
  check_gradient(grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups);
  const NPUGuard guard(input.device().index());
  const at::Tensor grad_input = mask[0] ? empty(input.sizes(), input.scalar_type()) : at::Tensor();
  const at::Tensor grad_weight = mask[1] ? empty(weight.sizes(), weight.scalar_type()) : at::Tensor();
  const int64_t channels = grad_output.size(1);
  const at::Tensor grad_bias = mask[2] ? empty({channels}, grad_output.scalar_type()) : at::Tensor();
  ACLNN(aclnnConvolutionBackward)(grad_output, input, weight, at::IntArrayRef(&channels, 1), stride, padding, dilation,
                                  transposed, output_padding, groups, mask, conv_math_type(), grad_input, grad_weight,
                                  grad_bias);
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", NPU_FN(convolution));
  m.impl("convolution_backward_overrideable", NPU_FN(convolution_backward));
}

}  // namespace npu
