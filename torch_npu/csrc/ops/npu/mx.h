// MX quantization: blocks of numbers with a power of two each, kept as its exponent in a byte (float8_e8m0fnu), and elements of 8-bit or, two in a
// byte, of 4-bit floating types. Users hold 4-bit elements and exponents in uint8; CANN takes them by their types. Here: what calls of the family
// may ask, and sizes of what comes back. What it is not: the computation, which is CANN's. Who uses it: rows of ops/npu.yaml.
#pragma once

#include <initializer_list>
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

// -- types and sizes
int64_t mx_code(const char* op, int64_t type);  // CANN's number
bool of_four_bits(const char* op, int64_t type);
Result mx_elements(const char* op, const Sizes& sizes, int64_t type);
Result mx_scales(const Sizes& sizes, int64_t axis, int64_t block = 32);
at::Tensor as_elements(const at::Tensor& t, int64_t type);  // the same memory as CANN's type
at::Tensor as_scales(const at::Tensor& t);
OptionalTensor as_scales(const OptionalTensor& t);
Sizes mx_sizes(const at::Tensor& t, int64_t type);  // in elements

// -- checks
void check_mx(const char* op, const at::Tensor& x, const MxForm& form, std::initializer_list<int64_t> algorithms);
void check_mx_blocks(const at::Tensor& input, int64_t axis, int64_t block, const MxForm& form);
void check_mx_twice(const char* op, const at::Tensor& input, const MxForm& form);
void check_mx_squares(const at::Tensor& input, const MxForm& form);
void check_mx_levels(const at::Tensor& input, const OptionalTensor& smooth, std::string_view round);
void check_mx_groups(const char* op, const at::Tensor& x, const at::Tensor& ends);
void check_anti_mx(const at::Tensor& x, const at::Tensor& scale, int64_t axis, int64_t type, int64_t source);
void check_mx_norm(const char* op, const at::Tensor& x1, const OptionalTensor& x2, const at::Tensor& gamma,
                   const OptionalTensor& beta, const MxForm& form);
struct MxGate {
  int64_t dim;
  int64_t mode;
  double limit;
  int64_t axis, group_mode;
};
void check_mx_gate(const at::Tensor& x, const OptionalTensor& groups, const MxGate& gate, const MxForm& form);
void check_mx_gate_twice(const char* op, const at::Tensor& x, const OptionalTensor& gradient,
                         const OptionalTensor& ends, const MxForm& form);
Result mx_scales_of_groups(const Sizes& sizes, const OptionalTensor& ends);  // along the dimension before the last
void check_block_groups(const at::Tensor& x, const at::Tensor& ends, double least, int64_t type, int64_t rows,
                        int64_t columns);
Result grouped_block_scales(const at::Tensor& x, const at::Tensor& ends, int64_t rows, int64_t columns);
void check_kronecker(const at::Tensor& x, const at::Tensor& left, const at::Tensor& right, std::optional<double> clip,
                     const std::optional<int64_t>& type, std::optional<double> largest);

// -- rotation by small matrices, and gates of groups
int64_t rotated_type(const std::optional<int64_t>& type);
void check_rotate_quant(const at::Tensor& x, const at::Tensor& rotation, const OptionalTensor& alpha, int64_t axis,
                        const MxForm& form, bool turned);
at::Tensor rotated_as(const at::Tensor& y, int64_t type);
Result rotated_elements(const at::Tensor& x, int64_t type);
Result rotated_scales(const at::Tensor& x, int64_t type);
struct GroupGate {
  int64_t type, mode, block;
  bool round;
  double limit, largest;
  bool origin;
};
void check_group_gate(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& counts,
                      const OptionalTensor& scale, const GroupGate& gate);
// Modes 2 and 3 make hifloat8, whatever type is named.
int64_t group_gate_code(int64_t type, int64_t mode);
Result group_gate_values(const at::Tensor& x, int64_t type, int64_t mode);
at::Tensor group_gate_written(const at::Tensor& y, int64_t type, int64_t mode);  // the same memory as CANN's type
Result group_gate_scales(const at::Tensor& x, const OptionalTensor& counts, int64_t mode);
void check_group_gate_backward(const at::Tensor& dy, const at::Tensor& x, const OptionalTensor& weight,
                               const OptionalTensor& origin, const OptionalTensor& counts, double limit);

// -- npu_weight_quant_preprocess (prepared_weight.cpp)
struct PreparedTypes {
  int64_t x, weight, scale;
  std::optional<int64_t> x_scale, group;
};
void check_weight_preprocess(const at::Tensor& weight, const at::Tensor& scale, const OptionalTensor& offset,
                             const OptionalTensor& bias, const PreparedTypes& types);

// -- products (mx_products.cpp). A type says how the bytes of a factor are read, and of scales.
// Sizes in elements: of a matrix of 4-bit floats those of the dimension of stride 1 are two in a byte, integers eight in an int32.
Sizes elements_of(const at::Tensor& t, const std::optional<int64_t>& type = {});
struct MxTypes {
  const std::optional<int64_t>&a, &b, &a_scale, &b_scale;
};
struct MxScales {  // of npu_quant_matmul
  const at::Tensor& b;
  const OptionalTensor &offset, &a, &bias, &y;
};
// Of operands that check_quant_product() takes.
Sizes quant_product_sizes(const at::Tensor& a, const at::Tensor& b, const MxTypes& types);
void check_quant_product(const at::Tensor& a, const at::Tensor& b, const MxScales& scales, const MxTypes& types,
                         at::OptionalIntArrayRef groups, std::optional<int64_t> output);
void quant_product_into(const at::Tensor& a, const at::Tensor& b, const MxScales& scales, const MxTypes& types,
                        at::OptionalIntArrayRef groups, const at::Tensor& out);
void check_transposed_product(const at::Tensor& x1, const at::Tensor& x2, int64_t type, const OptionalTensor& scale1,
                              const OptionalTensor& scale2, at::OptionalIntArrayRef perm1,
                              at::OptionalIntArrayRef perm2, at::OptionalIntArrayRef perm_out);
bool turned(at::OptionalIntArrayRef perm);
void transposed_product_into(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& scale1,
                             const at::Tensor& scale2, bool turned, const at::Tensor& out);
void check_level_product(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& a0, const at::Tensor& b0,
                         const at::Tensor& a1, const at::Tensor& b1, const OptionalTensor& bias, int64_t type);
void check_mx_sum(const char* op, const at::Tensor& y, const at::Tensor& x1, const at::Tensor& x2,
                  const at::Tensor& x2_scale, const OptionalTensor& x1_scale, at::OptionalIntArrayRef groups,
                  const MxTypes& types);
void check_mx_group_sums(const char* op, const at::Tensor& y, const at::Tensor& x1, const at::Tensor& x2,
                         const at::Tensor& x2_scale, const at::Tensor& list, const OptionalTensor& x1_scale,
                         std::optional<int64_t> list_type, at::OptionalIntArrayRef groups, const MxTypes& types);

// Without powers of two, behind gelu (gelu_quant.cpp).
Pair gelu_quantized(const at::Tensor& input, const OptionalTensor& scale, const OptionalTensor& offset,
                    std::string_view approximate, std::string_view mode, const std::optional<int64_t>& type,
                    std::string_view round);

}  // namespace npu::ops
