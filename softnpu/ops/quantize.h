// Quantization to 8-bit integers and back, and products of quantized operands. Rounding is to even; values are clamped to the result's
// type. For expressions of ops/aclnn.yaml that name it as their header, and kernels of this room.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::ops::kernels {

void dynamic_quant(const at::Tensor& x, const std::optional<at::Tensor>& smooth,
                   const std::optional<at::Tensor>& groups, at::Tensor& y, at::Tensor& scale,
                   at::Tensor& offset);  // with an offset where that is given
void quantize(const at::Tensor& x, const at::Tensor& scale, const std::optional<at::Tensor>& offset, int64_t axis,
              bool divide, at::Tensor& out);
void anti_quant(const at::Tensor& x, const at::Tensor& scale, const std::optional<at::Tensor>& offset, bool square,
                at::Tensor& out);
void quant_param(const at::Tensor& scale, const std::optional<at::Tensor>& offset, at::Tensor& out);
void quant_matmul(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& row_scale,
                  const at::Tensor& scale, const std::optional<at::Tensor>& offset,
                  const std::optional<at::Tensor>& bias, bool transpose_a, bool transpose_b, at::Tensor& out);
void need_weight_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale,
                         const std::optional<at::Tensor>& offset, const std::optional<at::Tensor>& quant_scale,
                         int64_t group, const at::Tensor& out);
void weight_quant_matmul(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale,
                         const std::optional<at::Tensor>& offset, const std::optional<at::Tensor>& quant_scale,
                         const std::optional<at::Tensor>& quant_offset, const std::optional<at::Tensor>& bias,
                         int64_t group, at::Tensor& out);
void fake_quantize(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero_point, bool enabled,
                   int64_t low, int64_t high, at::Tensor& out, at::Tensor& mask);

}  // namespace softnpu::ops::kernels
