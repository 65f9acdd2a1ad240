// npu_grouped_matmul: hand-written because the number of its results depends on the groups.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "csrc/core/device.h"
#include "csrc/core/stream.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/result.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops::kernels {
namespace {

using OptionalList = std::optional<at::TensorList>;
using OptionalInt = std::optional<int64_t>;
constexpr const char* kOp = "npu_grouped_matmul";

at::ScalarType result_type(at::TensorList x, OptionalInt dtype) {
  TORCH_CHECK_VALUE(!dtype || (*dtype >= 0 && *dtype < static_cast<int64_t>(at::ScalarType::NumOptions)), kOp,
                    ": output_dtype ", *dtype, " is no dtype");
  if (dtype) return static_cast<at::ScalarType>(*dtype);
  TORCH_CHECK(x[0].is_floating_point(), kOp, ": output_dtype is needed for operands of ", x[0].scalar_type());
  return x[0].scalar_type();
}

// Lists that are not implemented. An empty one is none.
struct Refused {
  const OptionalList &offset, &antiquant_scale, &antiquant_offset, &activation_input, &quant_scale, &quant_offset;
};

struct Operands {
  at::TensorList x, weight;
  const OptionalList &bias, &scale, &per_token_scale;
};

// A call of either overload, on the device or for "meta".
struct Call : Operands {
  Refused refused;
  OptionalInt listed;  // how many numbers group_list has; nothing where there is none
  int64_t split, type, list_type, act;
  OptionalInt dtype;

  bool one_result() const { return split == 2 || split == 3; }
  bool in_groups() const { return type == 2 || (type == 0 && x.size() == 1); }  // of one x
  bool stacked() const { return weight.size() == 1 && weight[0].dim() == 3; }   // one weight that has a matrix a group
  const at::Tensor& weight_of(size_t i) const { return weight[weight.size() == 1 ? 0 : i]; }
};

void need_tensors(at::TensorList x, at::TensorList weight) {
  TORCH_CHECK(!x.empty() && !weight.empty(), kOp, ": ", x.size(), " x and ", weight.size(),
              " weights; both lists hold one tensor or more");
}

void check_numbers(const Call& c) {
  const std::pair<const char*, const OptionalList&> named[] = {{"offset", c.refused.offset},
                                                               {"antiquant_scale", c.refused.antiquant_scale},
                                                               {"antiquant_offset", c.refused.antiquant_offset},
                                                               {"activation_input", c.refused.activation_input},
                                                               {"activation_quant_scale", c.refused.quant_scale},
                                                               {"activation_quant_offset", c.refused.quant_offset}};
  for (const auto& [name, list] : named) {
    TORCH_CHECK_NOT_IMPLEMENTED(listed(list).empty(), kOp, ": ", name, " is not implemented; leave it out");
  }
  check_number(kOp, "group_list_type", c.list_type, {0, 1});
  check_number(kOp, "group_type", c.type, {-1, 0, 2});
  check_number(kOp, "split_item", c.split, {0, 1, 2, 3});
  check_number(kOp, "act_type", c.act, {0, 1, 2, 3, 4, 5});
}

// How many products there are: one for each x, or for each group of the one x. Weights, and lists of their numbers, are as many.
int64_t products(const Call& c) {
  if (c.in_groups()) {
    TORCH_CHECK(c.x.size() == 1, kOp, ": group_type 2 takes one x, there are ", c.x.size());
    TORCH_CHECK(c.one_result(), kOp, c.type == 2 ? ": group_type 2" : ": one x in groups of rows",
                " needs split_item 2 or 3");
    TORCH_CHECK(c.listed, kOp, ": group_type ", c.type, " with one x needs group_list, where its groups end");
    need_dims(kOp, "x", c.x[0], {2});
  } else {
    TORCH_CHECK(!c.listed || *c.listed == 0 || *c.listed == static_cast<int64_t>(c.x.size()), kOp, ": group_list has ",
                *c.listed, " numbers for ", c.x.size(), " x");
  }
  const int64_t count = c.in_groups() ? *c.listed : static_cast<int64_t>(c.x.size());
  if (c.type == 2) {
    TORCH_CHECK(c.weight.size() == 1, kOp, ": group_type 2 takes one weight, there are ", c.weight.size());
    need_dims(kOp, "weight", c.weight[0], {2});
  } else if (c.stacked()) {
    TORCH_SYM_CHECK(c.weight[0].sym_size(0).sym_eq(count), kOp, ": weight must have ", count,
                    " matrices, one for each ", c.in_groups() ? "number of group_list" : "x", ", it has the sizes ",
                    c.weight[0].sym_sizes());
  } else {
    TORCH_CHECK(static_cast<int64_t>(c.weight.size()) == count, kOp, ": ", c.weight.size(), " weights for ", count,
                c.in_groups() ? " groups of group_list" : " x", "; give one for each, or one of ", count, " matrices");
    for (const at::Tensor& w : c.weight) need_dims(kOp, "weight", w, {2});
  }
  return count;
}

// Numbers of columns: of each weight, or of all groups of a weight that has one a group.
void need_columns(const char* name, const OptionalList& list, at::TensorList weight) {
  const at::TensorList given_ones = listed(list);
  if (given_ones.empty()) return;
  TORCH_CHECK(given_ones.size() == weight.size(), kOp, ": ", name, " must have a tensor for each of ", weight.size(),
              " weights, it has ", given_ones.size());
  for (size_t i = 0; i < weight.size(); ++i) {
    Sizes sizes = without_last(weight[i], 2);
    sizes.push_back(weight[i].sym_size(-1));
    need_sizes(kOp, name, given_ones[i], sizes);
  }
}

// An empty list is none.
void need_members(const char* name, const OptionalList& list, const char* of, at::TensorList others) {
  const size_t has = listed(list).size();
  TORCH_CHECK(has == 0 || has == others.size(), kOp, ": ", name, " must have a tensor for each of ", others.size(),
              " tensors of ", of, ", it has ", has);
}

// Of one weight with a matrix for each product the first dimension of its scale, which may be one row for all.
void need_scales(const char* name, const OptionalList& list, const Call& c, int64_t count) {
  need_members(name, list, "weight", c.weight);
  if (listed(list).empty() || !c.stacked()) return;
  const at::Tensor& t = listed(list)[0];
  TORCH_SYM_CHECK(c10::SymBool(t.dim() < 2)
                      .sym_or(t.sym_numel().sym_eq(0))
                      .sym_or((t.dim() ? t.sym_size(0) : c10::SymInt(0)).sym_eq(count)),
                  kOp, ": ", name, " must have ", count, " rows, one for each matrix of weight, it has the sizes ",
                  t.sym_sizes());
}

std::vector<Result> results_of(const Call& c) {
  need_tensors(c.x, c.weight);
  check_numbers(c);
  for (const at::Tensor& t : c.x) TORCH_CHECK(t.dim() >= 2, kOp, ": x has ", t.dim(), " dimensions, not 2");
  for (const at::Tensor& t : c.weight) TORCH_CHECK(t.dim() >= 2, kOp, ": weight has ", t.dim(), " dimensions, not 2");
  for (size_t i = 0; i < c.x.size() && (c.weight.size() == 1 || i < c.weight.size()); ++i) {
    TORCH_CHECK(c.x[i].sym_size(-1) == c.weight_of(i).sym_size(-2), kOp, ": the inner sizes of pair ", i, " are ",
                c.x[i].sym_size(-1), " and ", c.weight_of(i).sym_size(-2));
  }
  const int64_t count = products(c);
  need_columns("bias", c.bias, c.weight);
  need_scales("scale", c.scale, c, count);
  need_members("per_token_scale", c.per_token_scale, "x", c.x);
  const at::ScalarType out = result_type(c.x, c.dtype);
  const c10::SymInt columns = c.weight[0].sym_size(-1);
  if (c.type == 2) return {sized({c10::SymInt(count), c.x[0].sym_size(0), columns}, out)};
  if (c.in_groups()) return {sized(with_size(c.x[0], -1, columns), out)};
  std::vector<Result> results;
  c10::SymInt rows = 0;
  for (size_t i = 0; i < c.x.size(); ++i) {
    results.push_back(sized(with_size(c.x[i], -1, c.weight_of(i).sym_size(-1)), out));
    rows += c.x[i].sym_size(0);
  }
  if (c.one_result()) return {sized({rows, columns}, out)};
  return results;
}

// Numbers that are known at the call: running ends, or counts with group_list_type 1.
void check_list(at::TensorList x, at::OptionalIntArrayRef list, int64_t type, bool counts) {
  if (!list || list->empty()) return;
  int64_t last = 0;
  for (const int64_t number : *list) {
    TORCH_CHECK_VALUE(number >= (counts ? 0 : last), kOp, ": group_list is ", *list,
                      counts ? ", which has a negative count" : ", which decreases: it has running ends");
    last = counts ? last + number : number;
  }
  c10::SymInt rows = 0;
  for (const at::Tensor& t : x) rows += t.sym_size(type == 2 ? -1 : 0);
  TORCH_SYM_CHECK(rows.sym_ge(last), kOp, ": group_list is ", *list, ", but x has ", rows,
                  type == 2 ? " columns" : " rows");
}

OptionalInt number_of(std::optional<at::ScalarType> type) {
  return type ? OptionalInt(static_cast<int64_t>(*type)) : std::nullopt;
}

// -1 where every x has a weight of its own.
int64_t type_of(OptionalInt group_type, bool has_list) { return group_type.value_or(has_list ? 0 : -1); }

// The numbers in memory of the device. A graph that is captured takes no copy from the host, which it would wait for: there each number is
// written by a kernel, which replays write again.
at::Tensor on_device_of(const at::Tensor& like, at::IntArrayRef numbers) {
  const NPUGuard guard(like.device());
  const auto count = static_cast<int64_t>(numbers.size());
  if (is_capturing(current_stream(like.device().index()))) {
    const at::Tensor list = at::empty({count}, like.options().dtype(at::kLong));
    for (int64_t i = 0; i < count; ++i) list.select(0, i).fill_(numbers[static_cast<size_t>(i)]);
    return list;
  }
  const at::Tensor values = at::empty({count}, at::kLong);
  std::copy(numbers.begin(), numbers.end(), values.mutable_data_ptr<int64_t>());
  return values.to(like.device());
}

// What the caller chose, or did not.
struct Choice {
  OptionalInt split, type, list_type, act, dtype;
};

Call call_of(const Operands& operands, const Refused& refused, OptionalInt listed, const Choice& choice) {
  return {operands,
          refused,
          listed,
          choice.split.value_or(0),
          type_of(choice.type, listed.has_value()),
          choice.list_type.value_or(0),
          choice.act.value_or(0),
          choice.dtype};
}

OptionalInt numbers(const OptionalTensor& group_list) {
  if (!given(group_list)) return std::nullopt;
  need_dims(kOp, "group_list", *group_list, {1});
  return group_list->size(0);
}

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
  const Call call = call_of({x, weight, bias, scale, per_token_scale},
                            {offset, antiquant_scale, antiquant_offset, activation_input, quant_scale, quant_offset},
                            numbers(group_list), {split_item, group_type, group_list_type, act_type, output_dtype});
  std::vector<at::Tensor> out;
  const std::vector<Result> results = results_of(call);
  check_dtypes(kOp, {{"x_dtype", x_dtype, x},
                     {"weight_dtype", weight_dtype, weight},
                     {"scale_dtype", scale_dtype, scale},
                     {"per_token_scale_dtype", per_token_scale_dtype, per_token_scale}});
  check_tuning(kOp, tuning);
  for (const Result& r : results) out.push_back(on_device(r));
  const at::TensorList none;
  const auto list = [&](const OptionalList& tensors) { return tensors.value_or(none); };
  ACLNN(aclnnGroupedMatmulV5)
  (x, weight, list(bias), list(scale), none, none, none, list(per_token_scale), group_list, none, none, none,
   call.split, call.type, call.list_type, call.act, tuning, out, none, none);
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
  const Call call = call_of({x, weight, bias, scale, per_token_scale},
                            {offset, antiquant_scale, antiquant_offset, activation_input, quant_scale, quant_offset},
                            numbers(group_list), {split_item, group_type, group_list_type, act_type, output_dtype});
  std::vector<at::Tensor> out;
  for (const Result& r : results_of(call)) out.push_back(on_meta(r));
  check_dtypes(kOp, {{"x_dtype", x_dtype, x},
                     {"weight_dtype", weight_dtype, weight},
                     {"scale_dtype", scale_dtype, scale},
                     {"per_token_scale_dtype", per_token_scale_dtype, per_token_scale}});
  check_tuning(kOp, tuning);
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
    list = on_device_of(x[0], *group_list);
  }
  return grouped_matmul(x, weight, bias, scale, offset, antiquant_scale, antiquant_offset, per_token_scale, list,
                        activation_input, quant_scale, quant_offset, split_item, group_type, group_list_type, act_type,
                        std::nullopt, number_of(output_dtype), std::nullopt, std::nullopt, std::nullopt, std::nullopt);
}

std::vector<at::Tensor> grouped_matmul_list_meta(at::TensorList x, at::TensorList weight, OptionalList bias,
                                                 OptionalList scale, OptionalList offset, OptionalList antiquant_scale,
                                                 OptionalList antiquant_offset, OptionalList per_token_scale,
                                                 at::OptionalIntArrayRef group_list, OptionalList activation_input,
                                                 OptionalList quant_scale, OptionalList quant_offset,
                                                 OptionalInt split_item, OptionalInt group_type,
                                                 OptionalInt group_list_type, OptionalInt act_type,
                                                 std::optional<at::ScalarType> output_dtype) {
  need_tensors(x, weight);
  const OptionalInt groups = group_list && !group_list->empty() ? OptionalInt(group_list->size()) : std::nullopt;
  check_list(x, group_list, type_of(group_type, groups.has_value()), group_list_type.value_or(0) == 1);
  const Call call = call_of({x, weight, bias, scale, per_token_scale},
                            {offset, antiquant_scale, antiquant_offset, activation_input, quant_scale, quant_offset},
                            groups, {split_item, group_type, group_list_type, act_type, number_of(output_dtype)});
  std::vector<at::Tensor> out;
  for (const Result& r : results_of(call)) out.push_back(on_meta(r));
  return out;
}

}  // namespace npu::ops::kernels
