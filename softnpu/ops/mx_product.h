// Products of factors in 8-bit and 4-bit floats: with a power of two for each 32 numbers of the inner dimension (MX), or numbers of float32. The
// sums are fp32. Functions that begin with `need` are phase one's. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "softnpu/ops/absent.h"

namespace softnpu::ops::kernels {

using Maybe = std::optional<at::Tensor>;

// A matrix of rows along the inner dimension, [.., rows, inner], and scales for 32 of it, [.., rows, inner / 64, 2]; turned
// [.., inner, rows] and [.., inner / 64, rows, 2].
struct MxFactor {
  const at::Tensor& t;
  const at::Tensor& scale;
  bool turned;
};
bool of_powers(const Maybe& scale);                // float8_e8m0fnu
std::vector<int64_t> mx_sizes(const MxFactor& f);  // [.., rows, inner]
at::Tensor mx_rows(const MxFactor& f);             // the same, values
void need_mx_factor(const char* name, const MxFactor& f);
// Of scales for [.., rows, inner] of such sizes: whether they lie the other way, [.., inner / 64, rows, 2]. Where both fit, they lie as `either`
// says; throws where neither fits, or both do and nothing says.
bool mx_scale_turned(const char* name, const at::Tensor& scale, at::IntArrayRef rows, std::optional<bool> either = {});
// The same of a right factor [inner, columns] whose scales lie as it does in memory; and its values.
bool mx_right_turned(const char* name, const at::Tensor& right, const at::Tensor& scale);
at::Tensor mx_right(const at::Tensor& right, const at::Tensor& scale);
at::Tensor mx_product(const MxFactor& left,
                      const MxFactor& right);  // [.., rows, rows]; the right factor's rows are columns
// Sizes of groups that a scale is for, 16 bits each, of rows, columns and inner; 0 stands for what follows from the sizes.
void need_mx_group(int64_t sizes);

// Factors of int8, of int4 (eight in an int32), of int8 by int4, of 8-bit floats with numbers, also for blocks (block_product.h), of MX; of 8-bit
// floats by a weight of 4-bit floats, which may lie as eight in a float32: MX, or with a number for each 32 of the inner dimension and one a column
// of the result.
struct QuantFactors {
  const at::Tensor &a, &b;
  const Maybe& a_scale;
  const at::Tensor& b_scale;
  const Maybe &offset, &bias, &y_scale, &y_offset;
  bool turned_a, turned_b;
  int64_t group;
};
void need_quant_product(const QuantFactors& f, const at::Tensor& out);
void quant_product(const QuantFactors& f, at::Tensor& out);

struct LevelFactors {
  const at::Tensor &a, &b, &a0, &b0, &a1, &b1;
  const Maybe& bias;
  bool turned_a, turned_b;
  int64_t level0, level1;
};
void need_level_product(const LevelFactors& f, const at::Tensor& out);
void level_product(const LevelFactors& f, at::Tensor& out);

struct BatchFactors {
  const at::Tensor &a, &b;
  const Maybe &a_scale, &b_scale;
  at::IntArrayRef perm_a, perm_b, perm_out;
  int64_t type, group, split;
};
void need_batch_product(const BatchFactors& f, const Maybe& bias, const at::Tensor& out);
void batch_product(const BatchFactors& f, at::Tensor& out);

void need_mx_sum(const MxFactor& left, const MxFactor& right, int64_t group, const at::Tensor& y);
void mx_sum(const MxFactor& left, const MxFactor& right, at::Tensor& y);  // y + left @ right

// Groups of the inner dimension, whose scales begin at pair floor(start / 64) + group.
void need_mx_group_sums(const at::Tensor& a, const at::Tensor& b, const Maybe& a_scale, const at::Tensor& b_scale,
                        const at::Tensor& list, int64_t list_type, int64_t group, const at::Tensor& y);
void mx_group_sums(const at::Tensor& a, const at::Tensor& b, const Maybe& a_scale, const at::Tensor& b_scale,
                   const at::Tensor& list, int64_t list_type, at::Tensor& y);

// Products of groups whose rows are summed by number.
struct RoutedFactors {
  const at::Tensor &x, &weight;
  const Maybe &scale, &bias, &row_scale, &groups, &shared, &logit, &row;
  bool turned_a, turned_b;
  int64_t list_type, type;
  double weight_of_shared;
  int64_t offset;
};
struct RoutedOptions {  // which are refused
  const Maybe &offset = kAbsentOperand, &antiquant_scale = kAbsentOperand, &antiquant_offset = kAbsentOperand;
};
void need_routed(const RoutedFactors& f, const RoutedOptions& options, const at::Tensor& out);
void routed_product(const RoutedFactors& f, at::Tensor& out);

}  // namespace softnpu::ops::kernels
