// Products of MX operands, and of 8-bit ones with numbers as scales: see mx.h. Long because forms of two factors share checks.
#include <ATen/core/Tensor.h>

#include "csrc/core/type_name.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/mx.h"
#include "csrc/ops/npu/mx_bytes.h"
#include "csrc/ops/npu/numbered_type.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/type_rules.h"

namespace npu::ops {
namespace {

void need_byte(const char* op, const char* name, const at::Tensor& t) {
  need_type(op, name, t, {at::kByte, at::kChar, at::kFloat8_e8m0fnu, at::ScalarType::Float4_e2m1fn_x2});
}

// As CANN takes it: bytes by the type that is named.
at::Tensor factor(const at::Tensor& t, const std::optional<int64_t>& type) {
  return of_pairs(t, type) ? as_pairs(t) : read_as(t, type);
}

void need_factor(const char* op, const char* name, const at::Tensor& t, const std::optional<int64_t>& type) {
  if (of_pairs(t, type)) return need_byte(op, name, t);
  need_type(op, name, t, {at::kFloat8_e5m2, at::kFloat8_e4m3fn});
  check_dtypes(op, {{name, type, t}});
}

// Beside another of hifloat8.
void need_codes(const char* op, const char* name, const at::Tensor& t) {
  TORCH_CHECK(is_hifloat8(t), op, ": ", name, " of ", type_name(t), " is not hifloat8, and the other operand is; ",
              "both are uint8 and named torch_npu.hifloat8");
}

// Scales of 32 numbers of a dimension of t.
void need_powers(const char* op, const char* name, const at::Tensor& scale, const std::optional<int64_t>& type,
                 const Sizes& sizes, int64_t dim) {
  TORCH_CHECK_NOT_IMPLEMENTED(of_powers(scale, type), op, ": ", name, " of ", type_name(scale),
                              " is not implemented; float8_e8m0fnu is");
  need_byte(op, name, scale);
  need_sizes(op, name, scale, mx_scales(sizes, dim).sizes);
}

// Of 8-bit floats. Bytes look like the scales of npu_dynamic_mx_quant, which are read as such where their type is named.
void need_numbers(const char* op, const char* name, const char* type, const at::Tensor& scale) {
  TORCH_CHECK(scale.scalar_type() != at::kByte, op, ": ", name, " is of uint8; as the float8_e8m0fnu scales of MX ",
              "operands it is read with ", type, "=", kE8m0, ", both scales of a product alike; else it is float32");
  need_type(op, name, scale, {at::kFloat});
}

// Scales that are read as what they are.
void check_scale_dtypes(const char* op, const MxScales& scales, const MxTypes& types) {
  check_dtypes(op, {{"pertoken_scale_dtype", types.a_scale, scales.a}, {"scale_dtype", types.b_scale, scales.b}});
}

// Added to each row of a product, or of one of several.
void need_bias(const char* op, const OptionalTensor& bias, const c10::SymInt& columns) {
  if (!given(bias) || !holds_elements(*bias)) return;
  TORCH_CHECK(bias->dim() > 0, op, ": bias must have ", columns, " elements, it has no dimensions");
  if (bias->dim() != 3) need_elements(op, "bias", bias, {columns});
  TORCH_SYM_CHECK(bias->sym_size(-1).sym_eq(columns), op, ": bias must have ", columns,
                  " in its last dimension, its sizes are ", bias->sym_sizes());
}

// Three numbers, for rows, columns and inner numbers.
bool of_groups(at::OptionalIntArrayRef groups, at::IntArrayRef wanted) { return groups && groups->equals(wanted); }

void need_groups(const char* op, at::OptionalIntArrayRef groups) {
  if (!groups) return;
  TORCH_CHECK_VALUE(groups->size() == 3, op, ": group_sizes has ", groups->size(), " numbers, three are expected");
  TORCH_CHECK_NOT_IMPLEMENTED((*groups)[0] >= 0 && (*groups)[0] <= 1 && (*groups)[1] >= 0 && (*groups)[1] <= 1 &&
                                  ((*groups)[2] == 0 || (*groups)[2] == 32),
                              op, ": group_sizes ", *groups, " is not implemented, [1, 1, 32] is");
}

c10::SymInt blocks_of(const c10::SymInt& size, int64_t block) { return (size + (block - 1)) / block; }

// Blocks of rows, and of 128 numbers of the last dimension.
Sizes in_blocks(const at::Tensor& t, int64_t rows) {
  Sizes sizes = sizes_of(t);
  sizes[sizes.size() - 2] = blocks_of(sizes[sizes.size() - 2], rows);
  sizes.back() = blocks_of(sizes.back(), 128);
  return sizes;
}

void need_halves(const char* op, const char* with, std::optional<int64_t> output) {
  TORCH_CHECK_VALUE(
      output && (*output == static_cast<int64_t>(at::kHalf) || *output == static_cast<int64_t>(at::kBFloat16)), op,
      ": output_dtype is float16 or bfloat16 with ", with);
}

// A scale for each row, or for 128 rows, and 128 inner numbers, and for each block of 128 inner numbers by 128 columns.
void check_blocks(const char* op, const at::Tensor& a, const at::Tensor& b, const MxScales& scales,
                  const MxTypes& types, at::IntArrayRef groups, std::optional<int64_t> output) {
  const bool small = is_hifloat8(a) || a.scalar_type() == at::kFloat8_e5m2 || a.scalar_type() == at::kFloat8_e4m3fn;
  for (const auto& [name, t] : {std::pair{"x1", &a}, {"x2", &b}}) {
    small ? need_type(op, name, *t, {at::kFloat8_e5m2, at::kFloat8_e4m3fn, kHifloat8Codes})
          : need_type(op, name, *t, {at::kChar});
  }
  const int64_t rows = groups[0];
  TORCH_CHECK_VALUE(small || rows == 1, op, ": group_sizes ", groups,
                    " goes with 8-bit floats, int8 with [1, 128, 128]");
  TORCH_CHECK_VALUE(given(scales.a), op, ": pertoken_scale is needed with group_sizes ", groups);
  refuse_given(op, "offset", scales.offset);
  if (small) refuse_given(op, "bias", scales.bias);
  need_type(op, "scale", scales.b, {at::kFloat});
  need_type(op, "pertoken_scale", scales.a, {at::kFloat});
  need_type(op, "bias", scales.bias, {at::kFloat});
  check_scale_dtypes(op, scales, types);
  need_sizes(op, "pertoken_scale", scales.a, in_blocks(a, rows));
  need_sizes(op, "scale", scales.b, in_blocks(b, 128));
  need_sizes(op, "bias", scales.bias, {b.sym_size(-1)});
  if (!small) need_halves(op, "group_sizes [1, 128, 128]", output);
}

// 4-bit integers whose columns have a scale and an offset for each 256 inner numbers, and whose rows have a scale.
void check_shifted(const char* op, const at::Tensor& a, const at::Tensor& b, const MxScales& scales, const Sizes& sizes,
                   const c10::SymInt& inner, std::optional<int64_t> output) {
  need_type(op, "x1", a, {at::kInt});
  need_type(op, "x2", b, {at::kInt});
  need_dims(op, "x1", a, {2});
  need_dims(op, "x2", b, {2});
  TORCH_CHECK_VALUE(given(scales.a) && given(scales.offset), op,
                    ": pertoken_scale and offset are needed with scales of groups, a matrix");
  refuse_given(op, "bias", scales.bias);
  need_type(op, "scale", scales.b, {at::kFloat});
  need_type(op, "pertoken_scale", scales.a, {at::kFloat});
  need_type(op, "offset", scales.offset, {at::kHalf});
  need_sizes(op, "pertoken_scale", scales.a, {sizes[0], 1});
  const Sizes numbers{blocks_of(inner, 256), sizes[1]};
  need_sizes(op, "scale", scales.b, numbers);
  need_sizes(op, "offset", scales.offset, numbers);
  need_halves(op, "a matrix as scale", output);
}

// int8 by 4-bit integers.
bool mixed(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == at::kChar && b.scalar_type() == at::kInt;
}

// Scales are the 64 bits of npu_trans_quant_param, one a column, or a row for each 256 inner numbers.
void check_mixed(const char* op, const at::Tensor& a, const at::Tensor& b, const MxScales& scales, const Sizes& sizes,
                 at::OptionalIntArrayRef groups, std::optional<int64_t> output) {
  const char* const with = "x1 of int8 and x2 of 4-bit integers";
  need_dims(op, "x1", a, {2});
  need_dims(op, "x2", b, {2});
  TORCH_CHECK_VALUE(given(scales.a) && given(scales.offset), op,
                    ": pertoken_scale and offset, which is the sum of 8 * ",
                    "x2 * scale of each column, are needed with ", with);
  refuse_given(op, "bias", scales.bias);
  need_type(op, "scale", scales.b, {at::kLong, at::kUInt64});
  need_type(op, "pertoken_scale", scales.a, {at::kFloat});
  need_type(op, "offset", scales.offset, {at::kFloat});
  need_dims(op, "scale", scales.b, {1, 2});
  need_dims(op, "pertoken_scale", *scales.a, {1, 2});
  need_elements(op, "pertoken_scale", scales.a, {sizes[0]});
  need_sizes(op, "offset", scales.offset, {sizes[1]});
  const bool matrix = scales.b.dim() == 2;
  need_sizes(op, "scale", scales.b, matrix ? Sizes{blocks_of(a.sym_size(1), 256), sizes[1]} : Sizes{sizes[1]});
  TORCH_CHECK_NOT_IMPLEMENTED(!groups || (matrix && of_groups(groups, {0, 0, 256})), op, ": group_sizes ", *groups,
                              " is not implemented; [0, 0, 256] with a matrix as scale is, else leave it out");
  need_halves(op, with, output);
}

// 8-bit floats by 4-bit ones, with a scale for each 32 inner numbers of a column and one for each column of the result.
void check_two_scales(const char* op, const at::Tensor& a, const at::Tensor& b, const MxScales& scales,
                      const MxTypes& types, at::OptionalIntArrayRef groups, std::optional<int64_t> output) {
  const bool taken = a.scalar_type() == at::kFloat8_e4m3fn && (b.scalar_type() == at::kFloat || of_pairs(b, types.b));
  TORCH_CHECK_NOT_IMPLEMENTED(taken, op, ": y_scale is not implemented with operands of ", type_name(a), " and ",
                              type_name(b), "; with float8_e4m3fn and float4_e2m1, by x2_dtype=", kE2m1,
                              " or as eight in a float32, it is, else leave it out");
  need_dims(op, "x1", a, {2});
  need_dims(op, "x2", b, {2});
  if (b.scalar_type() != at::kFloat) need_byte(op, "x2", b);
  check_dtypes(op, {{"x1_dtype", types.a, a}, {"scale_dtype", types.b_scale, scales.b}});
  refuse_given(op, "pertoken_scale", scales.a);
  refuse_given(op, "offset", scales.offset);
  refuse_given(op, "bias", scales.bias);
  need_groups(op, groups);
  const Sizes sizes = quant_product_sizes(a, b, types);
  TORCH_SYM_CHECK((a.sym_size(1) % 32).sym_eq(0), op, ": the inner size is ", a.sym_size(1),
                  ", a multiple of 32 is expected with y_scale");
  need_type(op, "scale", scales.b, {at::kHalf, at::kBFloat16});
  need_type(op, "y_scale", scales.y, {at::kLong, at::kUInt64});
  need_sizes(op, "scale", scales.b, {a.sym_size(1) / 32, sizes[1]});
  need_sizes(op, "y_scale", scales.y, {c10::SymInt(1), sizes[1]});
  TORCH_CHECK_VALUE(output && *output == static_cast<int64_t>(scales.b.scalar_type()), op,
                    ": output_dtype is the type of scale with y_scale, ", type_name(scales.b));
}

int64_t grouped(at::OptionalIntArrayRef groups) {
  return groups ? ((*groups)[0] << 32) + ((*groups)[1] << 16) + (*groups)[2] : 0;
}

}  // namespace

namespace {

// Of a matrix in whose words lie so many, along the dimension of stride 1.
Sizes elements_in(const at::Tensor& t, int64_t in_one) {
  Sizes sizes = sizes_of(t);
  if (in_one == 1 || sizes.size() < 2) return sizes;
  const bool last = TORCH_GUARD_OR_FALSE(t.sym_stride(-1).sym_eq(1));
  const size_t dim = sizes.size() - (last ? 1 : 2);
  sizes[dim] = sizes[dim] * in_one;
  return sizes;
}

// Of x2, which may hold eight 4-bit floats in a float32.
Sizes right_elements(const at::Tensor& t, const std::optional<int64_t>& type) {
  return t.scalar_type() == at::kFloat ? elements_in(t, 8) : elements_of(t, type);
}

}  // namespace

Sizes elements_of(const at::Tensor& t, const std::optional<int64_t>& type) {
  return elements_in(t, of_pairs(t, type) ? 2 : t.scalar_type() == at::kInt ? 8 : 1);
}

Sizes quant_product_sizes(const at::Tensor& a, const at::Tensor& b, const MxTypes& types) {
  const Sizes left = elements_of(a, types.a), right = right_elements(b, types.b);
  TORCH_SYM_CHECK(left.back().sym_eq(right[right.size() - 2]), "npu_quant_matmul: the inner sizes are ", left.back(),
                  " and ", right[right.size() - 2], ", of x1 and x2");
  const Sizes& longer = left.size() >= right.size() ? left : right;
  Sizes sizes(longer.begin(), longer.end() - 2);
  sizes.push_back(left[left.size() - 2]);
  sizes.push_back(right.back());
  return sizes;
}

void check_quant_product(const at::Tensor& x1, const at::Tensor& x2, const MxScales& scales, const MxTypes& types,
                         at::OptionalIntArrayRef groups, std::optional<int64_t> output) {
  const char* const op = "npu_quant_matmul";
  const at::Tensor a = read_as(x1, types.a), b = read_as(x2, types.b);
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, op, ": x1 and x2 must be matrices or batches of them, they have ", a.dim(),
              " and ", b.dim(), " dimensions");
  const bool floats =
      output && (*output == static_cast<int64_t>(at::kHalf) || *output == static_cast<int64_t>(at::kBFloat16) ||
                 *output == static_cast<int64_t>(at::kFloat));
  if (given(scales.y)) return check_two_scales(op, a, b, scales, types, groups, output);
  need_bias(op, scales.bias, right_elements(b, types.b).back());
  if (of_powers(scales.b, types.b_scale)) {
    refuse_given(op, "offset", scales.offset);
    TORCH_CHECK_VALUE(given(scales.a), op, ": pertoken_scale is needed with MX operands");
    need_factor(op, "x1", a, types.a);
    if (b.scalar_type() == at::kFloat) {
      need_type(op, "x1 with x2 of eight 4-bit floats in a float32", a, {at::kFloat8_e4m3fn});
    } else {
      need_factor(op, "x2", b, types.b);
    }
    need_groups(op, groups);
    need_powers(op, "pertoken_scale", *scales.a, types.a_scale, elements_of(a, types.a), -1);
    need_powers(op, "scale", scales.b, types.b_scale, right_elements(b, types.b), -2);
    TORCH_CHECK_VALUE(floats, op, ": output_dtype of MX operands is float16, bfloat16 or float32");
    return;
  }
  const bool blocks = of_groups(groups, {1, 128, 128}) || of_groups(groups, {128, 128, 128});
  if (is_hifloat8(a) || a.scalar_type() == at::kFloat8_e5m2 || a.scalar_type() == at::kFloat8_e4m3fn) {
    TORCH_CHECK_VALUE(floats, op, ": output_dtype of 8-bit floats is float16, bfloat16 or float32");
    check_dtypes(op, {{"x1_dtype", types.a, a}});
    is_hifloat8(a) ? need_codes(op, "x2", b) : need_factor(op, "x2", b, types.b);
    if (blocks) return check_blocks(op, a, b, scales, types, *groups, output);
    refuse_given(op, "offset", scales.offset);
    TORCH_CHECK_NOT_IMPLEMENTED(
        !groups, op, ": group_sizes ", *groups,
        " is not implemented; of 8-bit floats [1, 128, 128] and [128, 128, 128] are, else leave it out");
    if (scales.b.scalar_type() == at::kLong || scales.b.scalar_type() == at::kUInt64) {
      refuse_given(op, "pertoken_scale", scales.a);
    } else {
      need_numbers(op, "scale", "scale_dtype", scales.b);
    }
    need_elements(op, "scale", scales.b, {1, b.sym_size(-1)});
    if (given(scales.a)) need_numbers(op, "pertoken_scale", "pertoken_scale_dtype", *scales.a);
    check_scale_dtypes(op, scales, types);
    need_elements(op, "pertoken_scale", scales.a, {1, a.sym_size(-2)});
    return;
  }
  const bool whole = a.scalar_type() == at::kChar || a.scalar_type() == at::kInt;
  TORCH_CHECK((whole && a.scalar_type() == b.scalar_type()) || mixed(a, b), op, ": operands of ", type_name(a), " and ",
              type_name(b), ": int8 ones are implemented, int32 ones of eight 4-bit integers each, int8 ",
              "by int32 ones, float8_e4m3fn and float8_e5m2, hifloat8 by x1_dtype and x2_dtype, and MX ones");
  check_dtypes(op, {{"x1_dtype", types.a, a, Reading::kPacked},
                    {"x2_dtype", types.b, b, Reading::kPacked},
                    {"pertoken_scale_dtype", types.a_scale, scales.a},
                    {"scale_dtype", types.b_scale, scales.b}});
  const Sizes sizes = quant_product_sizes(a, b, types);
  if (mixed(a, b)) return check_mixed(op, a, b, scales, sizes, groups, output);
  if (blocks) return check_blocks(op, a, b, scales, types, *groups, output);
  const bool matrix = scales.b.dim() == 2 && a.scalar_type() == at::kInt;
  TORCH_CHECK_NOT_IMPLEMENTED(
      !groups || (matrix && of_groups(groups, {0, 0, 256})), op, ": group_sizes ", *groups,
      " is not implemented; [1, 128, 128] of int8 operands and [0, 0, 256] of 4-bit ones with a "
      "matrix as scale are, else leave it out");
  if (matrix) return check_shifted(op, a, b, scales, sizes, elements_of(a, types.a).back(), output);
  need_type(op, "offset", scales.offset, {at::kFloat});
  need_type(op, "scale", scales.b, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kLong, at::kUInt64});
  need_type(op, "pertoken_scale", scales.a, {at::kFloat});
  need_dims(op, "scale", scales.b, {0, 1});
  need_elements(op, "scale", scales.b, {1, sizes.back()});
  need_elements(op, "offset", scales.offset, {1, sizes.back()});
  if (given(scales.a)) need_dims(op, "pertoken_scale", *scales.a, {0, 1});
  need_elements(op, "pertoken_scale", scales.a, {1, sizes[sizes.size() - 2]});
}

void quant_product_into(const at::Tensor& a, const at::Tensor& b, const MxScales& scales, const MxTypes& types,
                        at::OptionalIntArrayRef groups, const at::Tensor& out) {
  const OptionalTensor rows = given(scales.a) ? OptionalTensor(scale_of(*scales.a, types.a_scale)) : scales.a, none;
  const OptionalTensor &shift = mixed(a, b) ? none : scales.offset, &mends = mixed(a, b) ? scales.offset : none;
  const at::Tensor left = factor(a, types.a), scale = scale_of(scales.b, types.b_scale);
  if (b.scalar_type() == at::kFloat) {  // of CANN's functions this one alone reads float32 so
    ACLNN(aclnnQuantMatmulWeightNz)
    (left, b, rows, scale, scales.y, nullptr, shift, mends, scales.bias, false, false, grouped(groups), out);
  } else {
    ACLNN(aclnnQuantMatmulV5)
    (left, factor(b, types.b), rows, scale, scales.y, nullptr, shift, mends, scales.bias, false, false, grouped(groups),
     out);
  }
}

// -- batches

bool turned(at::OptionalIntArrayRef perm) { return perm && perm->equals({0, 2, 1}); }

void check_transposed_product(const at::Tensor& x1, const at::Tensor& x2, int64_t type, const OptionalTensor& scale1,
                              const OptionalTensor& scale2, at::OptionalIntArrayRef perm1,
                              at::OptionalIntArrayRef perm2, at::OptionalIntArrayRef perm_out) {
  const char* const op = "npu_transpose_quant_batchmatmul";
  const auto check_perm = [&](const char* name, at::OptionalIntArrayRef perm, at::IntArrayRef one,
                              at::IntArrayRef other) {
    TORCH_CHECK_NOT_IMPLEMENTED(!perm || perm->equals(one) || perm->equals(other), op, ": ", name, " ", *perm,
                                " is not implemented");
  };
  check_perm("perm_x1", perm1, {1, 0, 2}, {1, 0, 2});
  check_perm("perm_x2", perm2, {0, 1, 2}, {0, 2, 1});
  check_perm("perm_y", perm_out, {1, 0, 2}, {1, 0, 2});
  check_type(op, "dtype", type, {at::kHalf, at::kBFloat16});
  need_dims(op, "x1", x1, {3});
  need_dims(op, "x2", x2, {3});
  for (const auto& [name, t] : {std::pair{"x1", &x1}, {"x2", &x2}}) {
    need_type(op, name, *t, {at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  }
  TORCH_CHECK_VALUE(given(scale1) && given(scale2), op, ": x1_scale and x2_scale are needed");
  const c10::SymInt rows = x1.sym_size(0), batch = x1.sym_size(1), inner = x1.sym_size(2);
  need_sizes(op, "x2", x2, turned(perm2) ? Sizes{batch, -1, inner} : Sizes{batch, inner, -1});
  if (scale1->dim() == 4) {
    need_type(op, "x1", x1, {at::kFloat8_e4m3fn});
    need_dims(op, "x2_scale", *scale2, {4});
    need_byte(op, "x1_scale", *scale1);
    need_byte(op, "x2_scale", *scale2);
    need_sizes(op, "x1_scale", scale1, mx_scales(sizes_of(x1), -1).sizes);
    return need_sizes(op, "x2_scale", scale2, mx_scales(sizes_of(x2), turned(perm2) ? -1 : -2).sizes);
  }
  need_sizes(op, "x1_scale", scale1, {rows});
  need_sizes(op, "x2_scale", scale2, {x2.sym_size(turned(perm2) ? 1 : 2)});
  need_type(op, "x1_scale", scale1, {at::kFloat});
  need_type(op, "x2_scale", scale2, {at::kFloat});
}

void transposed_product_into(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& scale1,
                             const at::Tensor& scale2, bool turned, const at::Tensor& out) {
  const std::array<int64_t, 3> rows = {1, 0, 2}, plain = {0, 1, 2}, swapped = {0, 2, 1};
  const at::Tensor none;
  ACLNN(aclnnTransposeQuantBatchMatMul)
  (x1, x2, none, as_scales(scale1), as_scales(scale2), static_cast<int32_t>(acl_code(out.scalar_type())), 0,
   at::IntArrayRef(rows), at::IntArrayRef(turned ? swapped : plain), at::IntArrayRef(rows), 1, out);
}

// -- two levels

void check_level_product(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& a0, const at::Tensor& b0,
                         const at::Tensor& a1, const at::Tensor& b1, const OptionalTensor& bias, int64_t type) {
  const char* const op = "npu_dual_level_quant_matmul";
  need_dims(op, "x1", x1, {2});
  need_dims(op, "x2", x2, {2});
  need_byte(op, "x1", x1);
  need_byte(op, "x2", x2);
  need_sizes(op, "x2", x2, {-1, x1.sym_size(1)});
  const c10::SymInt blocks = (x1.sym_size(1) * 2 + 511) / 512;
  need_sizes(op, "x1_level0_scale", a0, {x1.sym_size(0), blocks});
  need_sizes(op, "x2_level0_scale", b0, {blocks, x2.sym_size(0)});
  for (const auto& [name, t] : {std::pair{"x1_level0_scale", &a0}, {"x2_level0_scale", &b0}}) {
    need_type(op, name, *t, {at::kFloat});
  }
  const auto need_fine = [&](const char* name, const at::Tensor& t, const at::Tensor& x) {
    need_byte(op, name, t);
    need_sizes(op, name, t, mx_scales(mx_sizes(x, kE2m1), -1).sizes);
  };
  need_fine("x1_level1_scale", a1, x1);
  need_fine("x2_level1_scale", b1, x2);
  need_sizes(op, "bias", bias, {x2.sym_size(0)});
  need_type(op, "bias", bias, {at::kFloat});
  check_type(op, "output_dtype", type, {at::kHalf, at::kBFloat16});
}

// -- sums

namespace {

// Factors of hifloat8, which have numbers of float32: one for each product, or of the right factor one a column.
bool of_codes(const char* op, const at::Tensor& x1, const at::Tensor& x2, const MxTypes& types) {
  const at::Tensor a = read_as(x1, types.a), b = read_as(x2, types.b);
  if (!is_hifloat8(a) && !is_hifloat8(b)) return false;
  need_codes(op, "x1", a);
  need_codes(op, "x2", b);
  return true;
}

void need_scales_of_codes(const char* op, const at::Tensor& x1_scale, const at::Tensor& x2_scale) {
  need_numbers(op, "x1_scale", "x1_scale_dtype", x1_scale);
  need_numbers(op, "x2_scale", "x2_scale_dtype", x2_scale);
}

}  // namespace

void check_mx_sum(const char* op, const at::Tensor& y, const at::Tensor& x1, const at::Tensor& x2,
                  const at::Tensor& x2_scale, const OptionalTensor& x1_scale, at::OptionalIntArrayRef groups,
                  const MxTypes& types) {
  need_dims(op, "x1", x1, {2});
  need_dims(op, "x2", x2, {2});
  TORCH_CHECK_VALUE(given(x1_scale), op, ": x1_scale is needed");
  need_sizes(op, "x2", x2, {x1.sym_size(1), -1});
  if (of_codes(op, x1, x2, types)) {
    refuse_given(op, "group_sizes", groups);
    need_scales_of_codes(op, *x1_scale, x2_scale);
    need_sizes(op, "x1_scale", *x1_scale, {1});
    need_sizes(op, "x2_scale", x2_scale, {1});
  } else {
    need_factor(op, "x1", x1, types.a);
    need_factor(op, "x2", x2, types.b);
    for (const auto& [name, t, type] : {std::tuple{"x1", &x1, &types.a}, {"x2", &x2, &types.b}}) {
      TORCH_CHECK_NOT_IMPLEMENTED(!of_pairs(*t, *type), op, ": ", name, " of 4-bit floats is not implemented");
    }
    need_groups(op, groups);
    need_powers(op, "x1_scale", *x1_scale, types.a_scale, sizes_of(x1), -1);
    need_powers(op, "x2_scale", x2_scale, types.b_scale, sizes_of(x2), -2);
  }
  need_type(op, "input", y, {at::kFloat});
  need_sizes(op, "input", y, {x1.sym_size(0), x2.sym_size(1)});
}

void check_mx_group_sums(const char* op, const at::Tensor& y, const at::Tensor& x1, const at::Tensor& x2,
                         const at::Tensor& x2_scale, const at::Tensor& list, const OptionalTensor& x1_scale,
                         std::optional<int64_t> list_type, at::OptionalIntArrayRef groups, const MxTypes& types) {
  refuse_given(op, "group_sizes", groups);
  check_number(op, "group_list_type", list_type.value_or(0), {0, 1});
  need_dims(op, "x1", x1, {2});
  need_dims(op, "x2", x2, {2});
  TORCH_CHECK_VALUE(given(x1_scale), op, ": x1_scale is needed");
  need_dims(op, "group_list", list, {1});
  need_integers(op, "group_list", list);
  need_sizes(op, "x2", x2, {x1.sym_size(0), -1});
  need_type(op, "input", y, {at::kFloat});
  need_sizes(op, "input", y, {list.sym_size(0), x1.sym_size(1), x2.sym_size(1)});
  if (of_codes(op, x1, x2, types)) {
    need_scales_of_codes(op, *x1_scale, x2_scale);
    need_elements(op, "x1_scale", x1_scale, {list.sym_size(0)});
    return need_elements(op, "x2_scale", x2_scale, {list.sym_size(0), list.sym_size(0) * x2.sym_size(1)});
  }
  need_factor(op, "x1", x1, types.a);
  need_factor(op, "x2", x2, types.b);
  const c10::SymInt pairs = x1.sym_size(0) / 64 + list.sym_size(0);
  for (const auto& [name, t, type, x] :
       {std::tuple{"x1_scale", &*x1_scale, &types.a_scale, &x1}, {"x2_scale", &x2_scale, &types.b_scale, &x2}}) {
    TORCH_CHECK_NOT_IMPLEMENTED(of_powers(*t, *type), op, ": ", name, " of ", type_name(*t),
                                " is not implemented; float8_e8m0fnu is");
    need_byte(op, name, *t);
    need_sizes(op, name, *t, {pairs, x->sym_size(1), 2});
  }
}

}  // namespace npu::ops
