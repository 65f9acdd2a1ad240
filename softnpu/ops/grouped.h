// Products of groups of rows, each with a weight of its own: plain, of quantized operands, of weights of fewer bits. How operands are quantized
// is in their types alone (Way). fp32 sums; sums of integers are exact. Functions that begin with `need` are phase one's. Who calls it:
// expressions of ops/aclnn.yaml that name it as their header, kernels that do something with the products (grouped_gate, mx_product).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace softnpu::ops::kernels {

struct Groups {
  std::optional<at::Tensor> list{};  // running ends, or counts, or rows of a number of a group and its count
  int64_t type = -1, list_type = 0, activation = 0;
};
// Of lists one member is of all groups, or holds them in its first dimension.
struct Grouped {
  at::TensorList x, weight, bias{}, scale{}, token_scale{}, antiquant{}, antiquant_offset{};
  at::TensorList offset{};  // of results: refused
  int64_t block = 0;        // of a weight's scales, where a function says it; it follows from the sizes
};
enum class Way {
  kPlain,    // x @ w + bias
  kWhole,    // int8, or int4 on both sides: exact sums, a scale a column and perhaps a row
  kShifted,  // int8 by int4: ((x - 8) @ (w * scale) + bias) * token_scale; bias has what 8 takes away
  kNarrow,   // int8 by int4 with two scales: (x @ (w * antiquant)) * scale * token_scale + bias
  kNumbers,  // 8-bit floats with numbers: (x @ w) * scale * token_scale
  kPowers,   // MX; the weight's powers are its scale, or its antiquant scale where it has fewer bits than x
  kWeight,   // x @ ((w + antiquant_offset) * antiquant) + bias
};
Way way_of(const Grouped& g);  // throws where types make no sense together

void need_grouped(const Grouped& g, const Groups& groups, at::TensorList out);
void grouped_matmul(const Grouped& g, const Groups& groups, at::TensorList out);

// Groups of rows of one x, each with its product in fp32; rows behind the last group are zero.
at::Tensor grouped_rows(const Grouped& g, const Groups& groups);
std::vector<int64_t> group_ends(const Groups& groups);  // of groups as they are listed

Groups groups_of(at::IntArrayRef ends);  // groups of rows, or pairs
// `ends`: running ends of the groups of rows of one x; none: pairs. `split` above 1: one result.
void need_grouped_ends(const Grouped& g, at::IntArrayRef ends, int64_t split, at::TensorList out);
void grouped_matmul_ends(const Grouped& g, at::IntArrayRef ends, at::TensorList out);

}  // namespace softnpu::ops::kernels
