// Other forms of quantization: by a scale with a choice of rounding, by the largest value of a row, a column or the whole tensor, and the
// 64 bits of a scale. Arithmetic is fp32. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

// x * scale + offset, the scale twice with `twice`; `rounding` is round, floor, ceil or trunc. The result's own type decides.
struct StaticForm {
  bool twice = false;
  std::string_view rounding{};
  int64_t type = 2;   // a number of aclDataType, the result's; 29 (4-bit integers) is eight in an int32
  int64_t axis = -1;  // of a scale and an offset of one dimension; others broadcast
};
void static_quant(const at::Tensor& x, const at::Tensor& scale, const std::optional<at::Tensor>& offset,
                  const StaticForm& form, at::Tensor& y);

struct DynamicForm {
  std::string_view mode{};  // pertoken (also without a name), pertensor, perchannel
  bool symmetric = true;
  int64_t type = 2;    // a number of aclDataType; the result's own type decides
  double largest = 0;  // in place of the type's, of hifloat8 alone
};
void need_dynamic_form(const at::Tensor& x, int64_t type, const at::Tensor& y, double largest = 0);
void dynamic_quant_form(const at::Tensor& x, const std::optional<at::Tensor>& smooth,
                        const std::optional<at::Tensor>& groups, const DynamicForm& form, at::Tensor& y,
                        at::Tensor& scale, at::Tensor& offset);

// mode 0 cuts the scale after 19 bits, 1 rounds it to them.
void quant_param_form(const at::Tensor& scale, const std::optional<at::Tensor>& offset, int64_t mode, at::Tensor& out);

// Gelu, then a scale that is given ("static", with an offset) or one a row ("dynamic").
struct GeluForm {
  std::string_view approximate, mode, rounding;
  int64_t type;
};
void gelu_quant(const at::Tensor& x, const std::optional<at::Tensor>& scale, const std::optional<at::Tensor>& offset,
                const GeluForm& form, at::Tensor& y, at::Tensor& out_scale);

// A convolution of int8 operands, exact, or of 8-bit floats, times a scale a channel (float32, or the 64 bits of one), plus a bias.
struct QuantConvolution {
  at::IntArrayRef stride, padding, dilation;
  bool transposed;
  int64_t groups, offset_x;  // the number around the input
};
void quant_convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       const at::Tensor& scale, const std::optional<at::Tensor>& offset, const QuantConvolution& form,
                       at::Tensor& out);

}  // namespace softnpu::ops::kernels
