// A call of npu_grouped_matmul, of either overload, as the device's kernel and the meta kernel see it: what is asked of it, and its results. What
// it is not: the values of group_list. Who uses it: grouped_matmul.cpp, the kernels; grouped_call.cpp and grouped_scales.cpp are its halves.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "csrc/ops/npu/result.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops::grouped {

using OptionalList = std::optional<at::TensorList>;
using OptionalInt = std::optional<int64_t>;
constexpr const char* kOp = "npu_grouped_matmul";

// Lists that are not implemented. An empty one is none.
struct Refused {
  const OptionalList &offset, &activation_input, &quant_scale, &quant_offset;
};

struct Operands {
  at::TensorList x, weight;
  const OptionalList &bias, &scale, &per_token_scale;
  const OptionalList &antiquant_scale, &antiquant_offset;  // of a weight of fewer bits than x
};

// As which types bytes are read.
struct Readings {
  OptionalInt x, weight, scale, per_token_scale;
};

struct Call : Operands {
  Refused refused;
  OptionalInt listed;  // how many numbers group_list has; nothing where there is none
  int64_t split, type, list_type, act;
  OptionalInt dtype;
  Readings readings;
  at::OptionalIntArrayRef tuning;

  bool one_result() const { return split == 2 || split == 3; }
  bool in_groups() const { return type == 2 || (type == 0 && x.size() == 1); }  // of one x
  bool stacked() const { return weight.size() == 1 && weight[0].dim() == 3; }   // one weight that has a matrix a group
  const at::Tensor& x_of(size_t i) const { return x[x.size() == 1 ? 0 : i]; }
  const at::Tensor& weight_of(size_t i) const { return weight[weight.size() == 1 ? 0 : i]; }
};

void need_tensors(at::TensorList x, at::TensorList weight);  // one in each list
// Everything that the device refuses, whatever the values are.
std::vector<Result> results_of(const Call& call);

// -- quantization (grouped_scales.cpp)
bool has(const OptionalList& list);    // whether a member has elements: a list of empty tensors is none
void check_factors(const Call& call);  // types of x and weight that go together
// Types and sizes of scales for `count` products. The type of the results.
at::ScalarType check_scales(const Call& call, int64_t count);

}  // namespace npu::ops::grouped
