// What is asked of a grouped product: numbers of tensors and groups, inner sizes and columns. See grouped_call.h.
#include "csrc/ops/npu/grouped_call.h"

#include <algorithm>

#include "csrc/ops/npu/mx.h"

namespace npu::ops::grouped {
namespace {

c10::SymInt columns_of(const at::Tensor& weight) { return elements_of(weight).back(); }

void check_numbers(const Call& c) {
  const std::pair<const char*, const OptionalList&> named[] = {{"offset", c.refused.offset},
                                                               {"activation_input", c.refused.activation_input},
                                                               {"activation_quant_scale", c.refused.quant_scale},
                                                               {"activation_quant_offset", c.refused.quant_offset}};
  for (const auto& [name, list] : named) {
    TORCH_CHECK_NOT_IMPLEMENTED(Operand(list).tensors().empty(), kOp, ": ", name, " is not implemented; leave it out");
  }
  check_number(kOp, "group_list_type", c.list_type, {0, 1, 2});
  check_number(kOp, "group_type", c.type, {-1, 0, 2});
  check_number(kOp, "split_item", c.split, {0, 1, 2, 3});
  check_number(kOp, "act_type", c.act, {0, 1, 2, 3, 4, 5});
  TORCH_CHECK_VALUE(c.list_type != 2 || (c.type == 0 && c.x.size() == 1), kOp, ": group_list_type 2 goes with ",
                    "group_type 0 and one x, not group_type ", c.type, " and ", c.x.size());
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
void need_biases(const Call& c) {
  const at::TensorList biases = Operand(c.bias).tensors();
  if (biases.empty()) return;
  TORCH_CHECK(biases.size() == c.weight.size(), kOp, ": bias must have a tensor for each of ", c.weight.size(),
              " weights, it has ", biases.size());
  for (size_t i = 0; i < c.weight.size(); ++i) {
    Sizes sizes = without_last(c.weight[i], 2);
    sizes.push_back(columns_of(c.weight[i]));
    need_sizes(kOp, "bias", biases[i], sizes);
  }
}

// An empty list is none.
void need_members(const char* name, const OptionalList& list, const char* of, at::TensorList others) {
  const size_t has = Operand(list).tensors().size();
  TORCH_CHECK(has == 0 || has == others.size(), kOp, ": ", name, " must have a tensor for each of ", others.size(),
              " tensors of ", of, ", it has ", has);
}

// Of one weight with a matrix for each product the first dimension of its scale, which may be one row for all.
void need_scales(const char* name, const OptionalList& list, const Call& c, int64_t count) {
  need_members(name, list, "weight", c.weight);
  if (Operand(list).tensors().empty() || !c.stacked()) return;
  const at::Tensor& t = Operand(list).tensors()[0];
  TORCH_SYM_CHECK(c10::SymBool(t.dim() < 2)
                      .sym_or(t.sym_numel().sym_eq(0))
                      .sym_or((t.dim() ? t.sym_size(0) : c10::SymInt(0)).sym_eq(count)),
                  kOp, ": ", name, " must have ", count, " rows, one for each matrix of weight, it has the sizes ",
                  t.sym_sizes());
}

// Rows of x by columns of weight, whose inner sizes are the same.
void need_inner_sizes(const Call& c) {
  for (const at::Tensor& t : c.x) TORCH_CHECK(t.dim() >= 2, kOp, ": x has ", t.dim(), " dimensions, not 2");
  for (const at::Tensor& t : c.weight) TORCH_CHECK(t.dim() >= 2, kOp, ": weight has ", t.dim(), " dimensions, not 2");
  const bool several = c.x.size() > 1 && c.weight.size() > 1;
  const size_t pairs = several ? std::min(c.x.size(), c.weight.size()) : std::max(c.x.size(), c.weight.size());
  for (size_t i = 0; i < pairs; ++i) {
    const Sizes weight = elements_of(c.weight_of(i));
    const c10::SymInt has = elements_of(c.x_of(i)).back(), wanted = weight[weight.size() - 2];
    TORCH_SYM_CHECK(has.sym_eq(wanted), kOp, ": the inner sizes of pair ", i, " are ", has, " and ", wanted);
  }
}

// Of what is joined into one result.
void need_one_width(const Call& c) {
  if (!c.in_groups()) {
    for (const at::Tensor& t : c.x) need_dims(kOp, "x", t, {2});
  }
  const c10::SymInt columns = columns_of(c.weight[0]);
  for (const at::Tensor& w : c.weight) {
    TORCH_SYM_CHECK(columns_of(w).sym_eq(columns), kOp, ": split_item ", c.split, " joins the products in one tensor, ",
                    "and weight has ", columns, " and ", columns_of(w),
                    " columns; split_item 0 returns one tensor each");
  }
}

std::vector<Result> sizes_of_results(const Call& c, int64_t count, at::ScalarType type) {
  const c10::SymInt columns = columns_of(c.weight[0]);
  if (c.type == 2) return {sized({c10::SymInt(count), c.x[0].sym_size(0), columns}, type)};
  if (c.in_groups()) return {sized(with_size(c.x[0], -1, columns), type)};
  std::vector<Result> results;
  c10::SymInt rows = 0;
  for (size_t i = 0; i < c.x.size(); ++i) {
    results.push_back(sized(with_size(c.x[i], -1, columns_of(c.weight_of(i))), type));
    rows += c.x[i].sym_size(0);
  }
  if (c.one_result()) return {sized({rows, columns}, type)};
  return results;
}

}  // namespace

void need_tensors(at::TensorList x, at::TensorList weight) {
  TORCH_CHECK(!x.empty() && !weight.empty(), kOp, ": ", x.size(), " x and ", weight.size(),
              " weights; both lists hold one tensor or more");
}

std::vector<Result> results_of(const Call& c) {
  need_tensors(c.x, c.weight);
  check_numbers(c);
  check_factors(c);
  need_inner_sizes(c);
  const int64_t count = products(c);
  if (c.one_result()) need_one_width(c);
  need_biases(c);
  need_scales("scale", c.scale, c, count);
  need_scales("antiquant_scale", c.antiquant_scale, c, count);
  need_scales("antiquant_offset", c.antiquant_offset, c, count);
  need_members("per_token_scale", c.per_token_scale, "x", c.x);
  const at::ScalarType type = check_scales(c, count);
  check_dtypes(kOp, {{"x_dtype", c.readings.x, c.x},
                     {"weight_dtype", c.readings.weight, c.weight},
                     {"scale_dtype", c.readings.scale, c.scale},
                     {"per_token_scale_dtype", c.readings.per_token_scale, c.per_token_scale}});
  check_tuning(kOp, c.tuning);
  return sizes_of_results(c, count, type);
}

}  // namespace npu::ops::grouped
