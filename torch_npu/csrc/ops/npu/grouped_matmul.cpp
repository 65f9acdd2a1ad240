// npu_grouped_matmul: hand-written because the number of its results depends on the groups.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "csrc/core/device.h"
#include "csrc/core/stream.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/grouped_call.h"
#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops::kernels {
namespace {

using grouped::Call, grouped::kOp, grouped::need_tensors, grouped::OptionalInt, grouped::OptionalList,
    grouped::results_of;

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

Call call_of(const grouped::Operands& operands, const grouped::Refused& refused, OptionalInt listed,
             const Choice& choice, const grouped::Readings& readings = {}, at::OptionalIntArrayRef tuning = {}) {
  return {operands,
          refused,
          listed,
          choice.split.value_or(0),
          type_of(choice.type, listed.has_value()),
          choice.list_type.value_or(0),
          choice.act.value_or(0),
          choice.dtype,
          readings,
          tuning};
}

std::vector<at::Tensor> sketched(const Call& call) {
  std::vector<at::Tensor> out;
  for (const Result& r : results_of(call)) out.push_back(on_meta(r));
  return out;
}

// How many groups are listed: numbers, or with group_list_type 2 rows of two, of a group and how many rows of x it has.
OptionalInt listed_in(const OptionalTensor& group_list, OptionalInt list_type) {
  if (!given(group_list)) return std::nullopt;
  if (list_type.value_or(0) == 2) {
    need_sizes(kOp, "group_list", *group_list, {-1, 2});
  } else {
    need_dims(kOp, "group_list", *group_list, {1});
  }
  need_integers(kOp, "group_list", group_list);
  return group_list->size(0);
}

}  // namespace

std::vector<at::Tensor> grouped_matmul(at::TensorList given_x, at::TensorList given_weight, OptionalList bias,
                                       OptionalList scale, OptionalList offset, OptionalList antiquant_scale,
                                       OptionalList antiquant_offset, OptionalList per_token_scale,
                                       const OptionalTensor& group_list, OptionalList activation_input,
                                       OptionalList quant_scale, OptionalList quant_offset, OptionalInt split_item,
                                       OptionalInt group_type, OptionalInt group_list_type, OptionalInt act_type,
                                       at::OptionalIntArrayRef tuning, OptionalInt output_dtype, OptionalInt x_dtype,
                                       OptionalInt weight_dtype, OptionalInt scale_dtype,
                                       OptionalInt per_token_scale_dtype) {
  const std::vector<at::Tensor> x = read_as(given_x, x_dtype), weight = read_as(given_weight, weight_dtype);
  const NPUGuard guard(first_device(given_x, given_weight));
  const Call call =
      call_of({x, weight, bias, scale, per_token_scale, antiquant_scale, antiquant_offset},
              {offset, activation_input, quant_scale, quant_offset}, listed_in(group_list, group_list_type),
              {split_item, group_type, group_list_type, act_type, output_dtype},
              {x_dtype, weight_dtype, scale_dtype, per_token_scale_dtype}, tuning);
  std::vector<at::Tensor> out;
  for (const Result& r : results_of(call)) out.push_back(on_device(r));
  const at::TensorList none;
  const auto list = [&](const OptionalList& tensors) { return tensors.value_or(none); };
  ACLNN(aclnnGroupedMatmulV5)
  (x, weight, list(bias), list(scale), none, list(antiquant_scale), list(antiquant_offset), list(per_token_scale),
   group_list, none, none, none, call.split, call.type, call.list_type, call.act, tuning, out, none, none);
  return out;
}

std::vector<at::Tensor> grouped_matmul_meta(at::TensorList given_x, at::TensorList given_weight, OptionalList bias,
                                            OptionalList scale, OptionalList offset, OptionalList antiquant_scale,
                                            OptionalList antiquant_offset, OptionalList per_token_scale,
                                            const OptionalTensor& group_list, OptionalList activation_input,
                                            OptionalList quant_scale, OptionalList quant_offset, OptionalInt split_item,
                                            OptionalInt group_type, OptionalInt group_list_type, OptionalInt act_type,
                                            at::OptionalIntArrayRef tuning, OptionalInt output_dtype,
                                            OptionalInt x_dtype, OptionalInt weight_dtype, OptionalInt scale_dtype,
                                            OptionalInt per_token_scale_dtype) {
  const std::vector<at::Tensor> x = read_as(given_x, x_dtype), weight = read_as(given_weight, weight_dtype);
  return sketched(call_of({x, weight, bias, scale, per_token_scale, antiquant_scale, antiquant_offset},
                          {offset, activation_input, quant_scale, quant_offset}, listed_in(group_list, group_list_type),
                          {split_item, group_type, group_list_type, act_type, output_dtype},
                          {x_dtype, weight_dtype, scale_dtype, per_token_scale_dtype}, tuning));
}

std::vector<at::Tensor> grouped_matmul_list(at::TensorList x, at::TensorList weight, OptionalList bias,
                                            OptionalList scale, OptionalList offset, OptionalList antiquant_scale,
                                            OptionalList antiquant_offset, OptionalList per_token_scale,
                                            at::OptionalIntArrayRef group_list, OptionalList activation_input,
                                            OptionalList quant_scale, OptionalList quant_offset, OptionalInt split_item,
                                            OptionalInt group_type, OptionalInt group_list_type, OptionalInt act_type,
                                            std::optional<at::ScalarType> output_dtype) {
  need_tensors(x, weight);
  check_number(kOp, "group_list_type", group_list_type.value_or(0), {0, 1});  // pairs are a tensor
  const bool grouped = group_list && !group_list->empty();
  check_list(x, group_list, type_of(group_type, grouped), group_list_type.value_or(0) == 1);
  OptionalTensor list;
  if (grouped) list = on_device_of(x[0], *group_list);
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
  check_number(kOp, "group_list_type", group_list_type.value_or(0), {0, 1});
  const OptionalInt groups = group_list && !group_list->empty() ? OptionalInt(group_list->size()) : std::nullopt;
  check_list(x, group_list, type_of(group_type, groups.has_value()), group_list_type.value_or(0) == 1);
  return sketched(call_of({x, weight, bias, scale, per_token_scale, antiquant_scale, antiquant_offset},
                          {offset, activation_input, quant_scale, quant_offset}, groups,
                          {split_item, group_type, group_list_type, act_type, number_of(output_dtype)}));
}

}  // namespace npu::ops::kernels
