// npu_grouped_matmul: hand-written because the number of its results depends on the groups.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "csrc/core/device.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/result.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops::kernels {
namespace {

using OptionalList = std::optional<at::TensorList>;
using OptionalInt = std::optional<int64_t>;

at::ScalarType result_type(at::TensorList x, OptionalInt dtype) {
  TORCH_CHECK_VALUE(!dtype || (*dtype >= 0 && *dtype < static_cast<int64_t>(at::ScalarType::NumOptions)),
                    "npu_grouped_matmul: output_dtype ", *dtype, " is no dtype");
  if (dtype) return static_cast<at::ScalarType>(*dtype);
  TORCH_CHECK(x[0].is_floating_point(), "npu_grouped_matmul: output_dtype is needed for operands of ",
              x[0].scalar_type());
  return x[0].scalar_type();
}

std::vector<Result> results_of(at::TensorList x, at::TensorList weight, int64_t groups, int64_t split, int64_t type,
                               OptionalInt dtype) {
  TORCH_CHECK(!x.empty() && !weight.empty(), "npu_grouped_matmul: x and weight are empty");
  for (const at::Tensor& t : x) TORCH_CHECK(t.dim() >= 2, "npu_grouped_matmul: x has ", t.dim(), " dimensions, not 2");
  check_number("npu_grouped_matmul", "split_item", split, {0, 1, 2, 3});
  const at::ScalarType out = result_type(x, dtype);
  const c10::SymInt columns = weight[0].sym_size(-1);
  const bool one = split == 2 || split == 3;
  if (type == 2) {
    TORCH_CHECK(one, "npu_grouped_matmul: group_type 2 needs split_item 2 or 3");
    TORCH_CHECK(x.size() == 1 && weight.size() == 1,
                "npu_grouped_matmul: group_type 2 takes one x and one weight, not ", x.size(), " and ", weight.size());
    return {sized({c10::SymInt(groups), x[0].sym_size(0), columns}, out)};
  }
  if (x.size() == 1 && type == 0) {
    TORCH_CHECK(one, "npu_grouped_matmul: one x in groups of rows needs split_item 2 or 3");
    return {sized(with_size(x[0], -1, columns), out)};
  }
  TORCH_CHECK(weight.size() == x.size() || weight[0].dim() == 3, "npu_grouped_matmul: ", x.size(), " x and ",
              weight.size(), " weights");
  std::vector<Result> results;
  c10::SymInt rows = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    results.push_back(sized(with_size(x[i], -1, weight[weight.size() == 1 ? 0 : i].sym_size(-1)), out));
    rows += x[i].sym_size(0);
  }
  if (one) return {sized({rows, columns}, out)};
  return results;
}

// Lists that are not implemented. An empty one is none.
struct Refused {
  const OptionalList &offset, &antiquant_scale, &antiquant_offset, &activation_input, &quant_scale, &quant_offset;
};

void need_tensors(at::TensorList x, at::TensorList weight) {
  TORCH_CHECK(!x.empty() && !weight.empty(), "npu_grouped_matmul: ", x.size(), " x and ", weight.size(),
              " weights; both lists hold one tensor or more");
}

// An empty list is none.
void need_members(const char* name, const OptionalList& list, const char* of, at::TensorList others) {
  const size_t has = listed(list).size();
  TORCH_CHECK(has == 0 || has == others.size(), "npu_grouped_matmul: ", name, " must have a tensor for each of ",
              others.size(), " tensors of ", of, ", it has ", has);
}

void check(at::TensorList x, at::TensorList weight, const Refused& lists, OptionalInt list_type, OptionalInt act) {
  need_tensors(x, weight);
  const std::pair<const char*, const OptionalList&> named[] = {{"offset", lists.offset},
                                                               {"antiquant_scale", lists.antiquant_scale},
                                                               {"antiquant_offset", lists.antiquant_offset},
                                                               {"activation_input", lists.activation_input},
                                                               {"activation_quant_scale", lists.quant_scale},
                                                               {"activation_quant_offset", lists.quant_offset}};
  for (const auto& [name, list] : named) {
    TORCH_CHECK_NOT_IMPLEMENTED(listed(list).empty(), "npu_grouped_matmul: ", name,
                                " is not implemented; leave it out");
  }
  check_number("npu_grouped_matmul", "group_list_type", list_type.value_or(0), {0, 1, 2});
  TORCH_CHECK_NOT_IMPLEMENTED(list_type.value_or(0) < 2, "npu_grouped_matmul: group_list_type 2 is not implemented");
  TORCH_CHECK_VALUE(act.value_or(0) >= 0 && act.value_or(0) <= 5, "npu_grouped_matmul: act_type is 0 to 5, not ", *act);
  for (size_t i = 0; i < x.size() && i < weight.size(); ++i) {
    TORCH_CHECK(x[i].sym_size(-1) == weight[i].sym_size(-2), "npu_grouped_matmul: the inner sizes of pair ", i, " are ",
                x[i].sym_size(-1), " and ", weight[i].sym_size(-2));
  }
}

// Numbers of columns: of each weight, or of all groups of a weight that has one a group.
void need_columns(const char* name, const OptionalList& list, at::TensorList weight) {
  const at::TensorList given_ones = listed(list);
  if (given_ones.empty()) return;
  TORCH_CHECK(given_ones.size() == weight.size(), "npu_grouped_matmul: ", name, " must have a tensor for each of ",
              weight.size(), " weights, it has ", given_ones.size());
  for (size_t i = 0; i < weight.size(); ++i) {
    Sizes sizes = without_last(weight[i], 2);
    sizes.push_back(weight[i].sym_size(-1));
    need_sizes("npu_grouped_matmul", name, given_ones[i], sizes);
  }
}

// Of rows in groups, each of which has a matrix of the one weight.
void check_groups(at::TensorList x, at::TensorList weight, const OptionalList& bias, int64_t type, int64_t groups) {
  need_columns("bias", bias, weight);
  TORCH_CHECK(
      type != 0 || groups == 0 || weight.size() != 1 || x.size() == 1,
      "npu_grouped_matmul: x must have one tensor where one weight has a matrix for each number of group_list, it has ",
      x.size());
  if (type != 0 || groups == 0 || weight.size() != 1 || weight[0].dim() != 3) return;
  TORCH_SYM_CHECK(weight[0].sym_size(0).sym_eq(groups), "npu_grouped_matmul: weight must have ", groups,
                  " matrices, one for each number of group_list, it has the sizes ", weight[0].sym_sizes());
  need_dims("npu_grouped_matmul", "x", x[0], {2});
}

// Numbers that are known at the call: running ends, or counts with group_list_type 1.
void check_list(at::TensorList x, at::OptionalIntArrayRef list, int64_t type, bool counts) {
  if (!list || list->empty()) return;
  int64_t last = 0;
  for (const int64_t number : *list) {
    TORCH_CHECK_VALUE(number >= (counts ? 0 : last), "npu_grouped_matmul: group_list is ", *list,
                      counts ? ", which has a negative count" : ", which decreases: it has running ends");
    last = counts ? last + number : number;
  }
  c10::SymInt rows = 0;
  for (const at::Tensor& t : x) rows += t.sym_size(type == 2 ? -1 : 0);
  TORCH_SYM_CHECK(rows.sym_ge(last), "npu_grouped_matmul: group_list is ", *list, ", but x has ", rows,
                  type == 2 ? " columns" : " rows");
}

OptionalInt number_of(std::optional<at::ScalarType> type) {
  return type ? OptionalInt(static_cast<int64_t>(*type)) : std::nullopt;
}

// -1 where every x has a weight of its own.
int64_t type_of(OptionalInt group_type, bool has_list) { return group_type.value_or(has_list ? 0 : -1); }

}  // namespace

std::vector<at::Tensor> grouped_matmul(at::TensorList x, at::TensorList weight, OptionalList bias, OptionalList scale,
                                       OptionalList offset, OptionalList antiquant_scale, OptionalList antiquant_offset,
                                       OptionalList per_token_scale, const OptionalTensor& group_list,
                                       OptionalList activation_input, OptionalList quant_scale,
                                       OptionalList quant_offset, OptionalInt split_item, OptionalInt group_type,
                                       OptionalInt group_list_type, OptionalInt act_type,
                                       at::OptionalIntArrayRef tuning, OptionalInt output_dtype, OptionalInt x_dtype,
                                       OptionalInt weight_dtype, OptionalInt scale_dtype,
                                       OptionalInt per_token_scale_dtype) {
  const NPUGuard guard(first_device(x, weight));
  check(x, weight, {offset, antiquant_scale, antiquant_offset, activation_input, quant_scale, quant_offset},
        group_list_type, act_type);
  check_dtypes("npu_grouped_matmul", {{"x_dtype", x_dtype, x},
                                      {"weight_dtype", weight_dtype, weight},
                                      {"scale_dtype", scale_dtype, scale},
                                      {"per_token_scale_dtype", per_token_scale_dtype, per_token_scale}});
  check_tuning("npu_grouped_matmul", tuning);
  need_members("scale", scale, "weight", weight);
  need_members("per_token_scale", per_token_scale, "x", x);
  const int64_t type = type_of(group_type, given(group_list)), split = split_item.value_or(0);
  check_groups(x, weight, bias, type, given(group_list) ? group_list->numel() : 0);
  if (given(group_list)) need_dims("npu_grouped_matmul", "group_list", *group_list, {1});
  const at::TensorList none;
  const auto list = [&](const OptionalList& tensors) { return tensors.value_or(none); };
  std::vector<at::Tensor> out;
  for (const Result& r :
       results_of(x, weight, given(group_list) ? group_list->numel() : 0, split, type, output_dtype)) {
    out.push_back(on_device(r));
  }
  ACLNN(aclnnGroupedMatmulV5)
  (x, weight, list(bias), list(scale), none, none, none, list(per_token_scale), group_list, none, none, none, split,
   type, group_list_type.value_or(0), act_type.value_or(0), tuning, out, none, none);
  return out;
}

std::vector<at::Tensor> grouped_matmul_meta(at::TensorList x, at::TensorList weight, OptionalList bias,
                                            OptionalList scale, OptionalList offset, OptionalList antiquant_scale,
                                            OptionalList antiquant_offset, OptionalList per_token_scale,
                                            const OptionalTensor& group_list, OptionalList activation_input,
                                            OptionalList quant_scale, OptionalList quant_offset, OptionalInt split_item,
                                            OptionalInt group_type, OptionalInt group_list_type, OptionalInt act_type,
                                            at::OptionalIntArrayRef tuning, OptionalInt output_dtype,
                                            OptionalInt x_dtype, OptionalInt weight_dtype, OptionalInt scale_dtype,
                                            OptionalInt per_token_scale_dtype) {
  check(x, weight, {offset, antiquant_scale, antiquant_offset, activation_input, quant_scale, quant_offset},
        group_list_type, act_type);
  check_dtypes("npu_grouped_matmul", {{"x_dtype", x_dtype, x},
                                      {"weight_dtype", weight_dtype, weight},
                                      {"scale_dtype", scale_dtype, scale},
                                      {"per_token_scale_dtype", per_token_scale_dtype, per_token_scale}});
  std::vector<at::Tensor> out;
  check_tuning("npu_grouped_matmul", tuning);
  need_members("scale", scale, "weight", weight);
  need_members("per_token_scale", per_token_scale, "x", x);
  if (given(group_list)) need_dims("npu_grouped_matmul", "group_list", *group_list, {1});
  const int64_t groups = given(group_list) ? group_list->size(0) : 0;
  check_groups(x, weight, bias, type_of(group_type, given(group_list)), groups);
  for (const Result& r :
       results_of(x, weight, groups, split_item.value_or(0), type_of(group_type, given(group_list)), output_dtype)) {
    out.push_back(on_meta(r));
  }
  return out;
}

std::vector<at::Tensor> grouped_matmul_list(at::TensorList x, at::TensorList weight, OptionalList bias,
                                            OptionalList scale, OptionalList offset, OptionalList antiquant_scale,
                                            OptionalList antiquant_offset, OptionalList per_token_scale,
                                            at::OptionalIntArrayRef group_list, OptionalList activation_input,
                                            OptionalList quant_scale, OptionalList quant_offset, OptionalInt split_item,
                                            OptionalInt group_type, OptionalInt group_list_type, OptionalInt act_type,
                                            std::optional<at::ScalarType> output_dtype) {
  need_tensors(x, weight);
  const bool grouped = group_list && !group_list->empty();
  check_list(x, group_list, type_of(group_type, grouped), group_list_type.value_or(0) == 1);
  OptionalTensor list;
  if (group_list && !group_list->empty()) {
    const at::Tensor values = at::empty({static_cast<int64_t>(group_list->size())}, at::kLong);
    std::copy(group_list->begin(), group_list->end(), values.mutable_data_ptr<int64_t>());
    list = values.to(x[0].device());
  }
  return grouped_matmul(x, weight, bias, scale, offset, antiquant_scale, antiquant_offset, per_token_scale, list,
                        activation_input, quant_scale, quant_offset, split_item, group_type, group_list_type, act_type,
                        std::nullopt, number_of(output_dtype), std::nullopt, std::nullopt, std::nullopt, std::nullopt);
}

std::vector<at::Tensor> grouped_matmul_list_meta(at::TensorList x, at::TensorList weight, OptionalList bias,
                                                 OptionalList, OptionalList offset, OptionalList antiquant_scale,
                                                 OptionalList antiquant_offset, OptionalList,
                                                 at::OptionalIntArrayRef group_list, OptionalList activation_input,
                                                 OptionalList quant_scale, OptionalList quant_offset,
                                                 OptionalInt split_item, OptionalInt group_type,
                                                 OptionalInt group_list_type, OptionalInt act_type,
                                                 std::optional<at::ScalarType> output_dtype) {
  check(x, weight, {offset, antiquant_scale, antiquant_offset, activation_input, quant_scale, quant_offset},
        group_list_type, act_type);
  std::vector<at::Tensor> out;
  const int64_t groups = group_list ? static_cast<int64_t>(group_list->size()) : 0;
  check_list(x, group_list, type_of(group_type, groups > 0), group_list_type.value_or(0) == 1);
  check_groups(x, weight, bias, type_of(group_type, groups > 0), groups);
  for (const Result& r : results_of(x, weight, groups, split_item.value_or(0), type_of(group_type, groups > 0),
                                    number_of(output_dtype))) {
    out.push_back(on_meta(r));
  }
  return out;
}

}  // namespace npu::ops::kernels
