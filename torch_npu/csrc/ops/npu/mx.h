// MX quantization: blocks of numbers with a power of two each, kept as its exponent in a byte (float8_e8m0fnu), and elements of 8-bit or, two in a
// byte, of 4-bit floating types. Compositions of PyTorch's operators in float32. Who uses it: rows of
// ops/npu.yaml.
#pragma once

#include <string_view>

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

// How blocks are scaled: `alg` 0 by the largest exponent, 1 so that nothing is above the type's largest number, 2 so for another number.
struct MxForm {
  std::string_view round;
  int64_t type;  // PyTorch's number of a type, or the vendor's
  int64_t alg = 0;
  double largest = 0;
  double least = 0;  // of a block's largest number
};
using Quad = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Pair mx_quantized(const char* op, const at::Tensor& input, int64_t axis, int64_t block, const MxForm& form);
Quad mx_quantized_twice(const char* op, const at::Tensor& input,
                        const MxForm& form);                               // along the last axis, then the one before
Triple mx_quantized_squares(const at::Tensor& input, const MxForm& form);  // one scale for 32 x 32
Triple mx_quantized_in_levels(const at::Tensor& input, const OptionalTensor& smooth, std::string_view round);
Pair mx_quantized_groups(const at::Tensor& x, const at::Tensor& ends, int64_t block, const MxForm& form);
at::Tensor mx_values(const at::Tensor& x, const at::Tensor& scale, int64_t axis, int64_t type, int64_t source);
// RMS normalization before it: elements, the sum where `x2` is given, scales, 1 / rms where x asks for a gradient.
Quad mx_normalized(const char* op, const at::Tensor& x1, const OptionalTensor& x2, const at::Tensor& gamma,
                   const OptionalTensor& beta, double eps, const MxForm& form);
// ((x1 permuted) @ (x2 permuted) * scales), rows before batch; scales are a number a row and column, or MX.
at::Tensor permuted_quantized_product(const at::Tensor& x1, const at::Tensor& x2, int64_t type,
                                      const OptionalTensor& scale1, const OptionalTensor& scale2,
                                      at::OptionalIntArrayRef perm1, at::OptionalIntArrayRef perm2,
                                      at::OptionalIntArrayRef perm_out);
struct MxGate {
  int64_t dim;
  bool left;
  int64_t mode;
  double limit, alpha, bias;
  int64_t axis;
};
Pair mx_gated(const at::Tensor& x, const OptionalTensor& groups, const MxGate& gate, int64_t group_mode,
              const MxForm& form);
Pair kronecker_quantized(const at::Tensor& x, const at::Tensor& left, const at::Tensor& right,
                         std::optional<double> clip, const std::optional<int64_t>& type, std::optional<double> largest);

// Without powers of two: blocks of groups, and behind gelu (gelu_quant.cpp).
Pair quantized_groups(const at::Tensor& x, const at::Tensor& ends, double least, int64_t type, int64_t rows,
                      int64_t columns);
Pair gelu_quantized(const at::Tensor& input, const OptionalTensor& scale, const OptionalTensor& offset,
                    std::string_view approximate, std::string_view mode, const std::optional<int64_t>& type,
                    std::string_view round);

}  // namespace npu::ops
