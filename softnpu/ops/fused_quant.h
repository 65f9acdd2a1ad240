// Normalization, gates and blocks with quantization behind them, and products of quantized groups. Rounding is to even; arithmetic is fp32,
// integer sums are exact. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

using Maybe = std::optional<at::Tensor>;

// -- quant_norm.cpp. RMS normalization, with a sum before it where `x2` is given.
struct Normed {
  const at::Tensor& gamma;
  const Maybe& beta;
  double eps;
};
struct StaticQuant {
  const Maybe &scale, &offset;
  bool divide;
};
void rms_norm_quant(const at::Tensor& x, const Maybe& x2, const Normed& norm, const StaticQuant& first,
                    const StaticQuant& second, at::Tensor& y1, at::Tensor& y2, at::Tensor& sum, at::Tensor& rstd,
                    at::Tensor& plain);
void rms_norm_dynamic_quant(const at::Tensor& x1, const at::Tensor& x2, const Normed& norm, const Maybe& smooth1,
                            const Maybe& smooth2, at::ArrayRef<bool> wanted, at::Tensor& y1, at::Tensor& y2,
                            at::Tensor& sum, at::Tensor& scale1, at::Tensor& scale2);
void rms_norm_backward_quant(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd, const at::Tensor& gamma,
                             const StaticQuant& quant, at::Tensor& dx, at::Tensor& dgamma);

// -- quant_gate.cpp
struct GroupRows {
  const Maybe& list;
  int64_t kind = 0;  // 0 running ends, 1 counts
};
void group_quant(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& groups, const Maybe& offset,
                 at::Tensor& y);
void swiglu_quant(const at::Tensor& x, const Maybe& smooth, const Maybe& offset, const GroupRows& groups, bool left,
                  std::string_view mode, at::Tensor& y, at::Tensor& scale);
struct Dequantized {
  const Maybe &weight_scale, &row_scale, &bias;
};
struct GatedQuant {
  const Maybe &scale, &offset, &groups;
  bool left;
  std::string_view mode;
  int64_t gate = 0;
  double limit = 7, alpha = 1.702, bias = 1;
  std::string_view round{};  // of 4-bit floats
};
void dequant_swiglu_quant(const at::Tensor& x, const Dequantized& d, const GatedQuant& q, at::Tensor& y,
                          at::Tensor& scale);
void dequant_bias(const at::Tensor& x, const at::Tensor& weight_scale, const Maybe& row_scale, const Maybe& bias,
                  at::Tensor& out);
// Phase one's: what roundMode, dstType and dstTypeMax say of a result that may be hifloat8 or 4-bit floats.
void need_quantized(std::string_view round, int64_t type, const at::Tensor& y, double largest = 0);
void block_quant(const at::Tensor& x, double least, int64_t rows, int64_t columns, double most, at::Tensor& y,
                 at::Tensor& scale);
void quant_max(const at::Tensor& x, const at::Tensor& scale, const Maybe& groups, at::Tensor& y, at::Tensor& largest);

// -- quant_product.cpp
void grouped_matmul_add(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& groups, bool transpose_x,
                        bool transpose_weight, int64_t type, int64_t list_type, at::Tensor& y);
void add_lora(const at::Tensor& y, const at::Tensor& x, const at::Tensor& b, const at::Tensor& indices, const Maybe& a,
              int64_t layer, double scale, int64_t from, int64_t count, at::Tensor& out);
void transposed_matmul(const at::Tensor& a, const at::Tensor& b, const Maybe& scale, at::IntArrayRef perm_a,
                       at::IntArrayRef perm_b, at::IntArrayRef perm_out, int64_t split, at::Tensor& out);
void need_no_bias(const Maybe& bias);
// A product of rows and weights of int8 (or int4, eight in an int32) with their scales, before it is rounded; fp64.
void need_whole_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out);
at::Tensor quantized_product(const at::Tensor& a, const at::Tensor& b, const Maybe& row_scale, const Maybe& scale,
                             const Maybe& bias);
void quant_matmul_dequant(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale, const Maybe& groups,
                          const Maybe& x_scale, const Maybe& smooth, std::string_view mode, bool transpose,
                          at::Tensor& out);
at::Tensor activated(const at::Tensor& x, std::string_view name);
void fused_matmul(const at::Tensor& a, const at::Tensor& b, const Maybe& bias, const Maybe& other,
                  std::string_view name, at::Tensor& out);

// What forms have and nothing here computes.
inline void need_plain_dequant(const Maybe& scale, const Maybe& bias, const Maybe& offset) {
  TORCH_CHECK(scale && scale->defined(), "weightScale is needed");
  TORCH_CHECK((!bias || !bias->defined()) && (!offset || !offset->defined()), "bias and xOffset are not implemented");
}

}  // namespace softnpu::ops::kernels
