// Values that rows of ops/npu.yaml give to aclnn parameters, and the checks of shapes that come before a call, so that a mistake is an error
// at the call and not of the stream. Who uses it: generated wrappers and the hand-written kernels beside.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

// How rotary position embedding pairs columns: half 0, interleave 1, quarter 2, interleave-half 3.
int64_t rotary_code(std::string_view name);
void check_rotary(const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin, std::string_view mode);

int64_t rotary_layout(std::string_view name);  // aclnnApplyRotaryPosEmb: BSND 1, SBND 2, BNSD 3, TND 4
void check_rotary_pair(std::string_view layout, std::string_view mode);
void check_no_rotate(const OptionalTensor& rotate);

// Of npu_layernorm_grad: statistics are one a row.
void check_norm_gradient(const at::Tensor& grad, const at::Tensor& input, at::IntArrayRef shape, const at::Tensor& mean,
                         const at::Tensor& rstd, const OptionalTensor& weight, const OptionalTensor& bias);
// gamma has the sizes of the input's last dimensions.
void check_gamma(const char* name, const at::Tensor& input, const at::Tensor& gamma);
void check_same_sizes(const char* op, const char* a, const at::Tensor& x, const char* b, const at::Tensor& y);

void check_add_layer_norm_gradient(const OptionalTensor& dy, const at::Tensor& x1, const at::Tensor& x2,
                                   const at::Tensor& rstd, const at::Tensor& mean, const at::Tensor& gamma,
                                   const OptionalTensor& dsum);
void check_bce_gradient(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& target,
                        const OptionalTensor& weight, const OptionalTensor& pos_weight);

int64_t gelu_code(std::string_view approximate);  // aclnnGeluV2: none 0, tanh 1
void check_probability(double p);

// Groups of channels.
void check_groups(const char* name, const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                  int64_t groups);

// CANN's mask of dropout: a bit an element, in bytes, padded to 128 elements.
c10::SymInt bit_mask_bytes(const at::Tensor& input);
void check_bit_mask(const at::Tensor& input, const at::Tensor& mask);
int64_t product(at::IntArrayRef sizes);

// -- quantization. Numbers name PyTorch's dtypes; none means the default.
int64_t acl_code(at::ScalarType type);  // CANN's number of a dtype
at::ScalarType quantized_type(int64_t dtype);
at::ScalarType half_type(std::optional<int64_t> dtype);
at::ScalarType quant_matmul_type(std::optional<int64_t> dtype);
void check_round_mode(std::optional<int64_t> mode);
bool packs_columns(const at::Tensor& weight);  // int32 of eight 4-bit integers along columns

// A mask that the caller gave is not kept for the backward pass, which draws it from the seed again.
void check_drawn_mask(const OptionalTensor& dropout_mask);

// The gradient of a gated activation is as the input, with half of dimension `dim`.
void check_halves_gradient(const at::Tensor& gradient, const at::Tensor& input, int64_t dim);

}  // namespace npu::ops
