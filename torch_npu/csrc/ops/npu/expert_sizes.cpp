// Rows of experts: sizes and checks, see sizes.h.
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/type_rules.h"

namespace npu::ops {
namespace {

void need_map(const char* op, const at::Tensor& map) {
  need_type(op, "routing_map", map, {at::kBool, at::kChar, at::kByte});
}

// [tokens, columns], as the rows given back to tokens are.
void need_shape(const char* op, at::IntArrayRef shape) {
  TORCH_CHECK(shape.size() == 2 && shape[0] >= 0 && shape[1] >= 0, op, ": restore_shape is [tokens, columns], not ",
              shape);
}

}  // namespace

void check_top_k(const char* name, const at::Tensor& x, int64_t k) {
  TORCH_CHECK(x.dim() > 0, name, ": the input has no dimensions");
  TORCH_CHECK_VALUE(k > 0, name, ": k is ", k);
  TORCH_SYM_CHECK(x.sym_size(-1).sym_ge(k), name, ": k is ", k, ", but there are ", x.sym_size(-1), " experts");
}

void check_not_padded(const char* name, bool padded_mode) {
  TORCH_CHECK_NOT_IMPLEMENTED(!padded_mode, name, ": padded_mode is not implemented");
}

c10::SymInt permuted_rows(const at::Tensor& indices, std::optional<int64_t> wanted) {
  const c10::SymInt all = indices.sym_numel();
  const int64_t count = wanted.value_or(0);
  if (count > 0) return all.min(count);
  return count == 0 ? all : (all + count).max(0);
}

c10::SymInt unpermuted_rows(const at::Tensor& places, const OptionalTensor& probs) {
  return given(probs) ? probs->sym_size(0) : places.sym_numel();
}

void check_gate(const at::Tensor& x, const OptionalTensor& bias, const OptionalTensor& ids, const OptionalTensor& table,
                GateNumbers n) {
  constexpr const char* kOp = "npu_moe_gating_top_k";
  check_top_k(kOp, x, n.k);
  need_type(kOp, "x", x, {at::kFloat, at::kHalf, at::kBFloat16});
  check_number(kOp, "norm_type", n.norm, {0, 1, 2});
  check_number(kOp, "renorm", n.renorm, {0, 1});
  check_number(kOp, "group_select_mode", n.group_mode, {0, 1});
  const c10::SymInt experts = x.sym_size(-1);
  TORCH_CHECK_VALUE(n.groups > 0 && n.chosen_groups > 0 && n.chosen_groups <= n.groups, kOp, ": k_group is ",
                    n.chosen_groups, " of group_count ", n.groups, "; 1 to group_count is possible");
  TORCH_SYM_CHECK((experts % n.groups).sym_eq(0), kOp, ": ", experts, " experts are not group_count ", n.groups,
                  " groups of one size");
  TORCH_SYM_CHECK((experts / n.groups * n.chosen_groups).sym_ge(n.k), kOp, ": k is ", n.k, ", but k_group ",
                  n.chosen_groups, " of ", n.groups, " groups have ", experts / n.groups * n.chosen_groups, " experts");
  TORCH_SYM_CHECK((experts / n.groups).sym_ge(n.group_mode == 1 && n.groups > 1 ? 2 : 1), kOp,
                  ": group_select_mode 1 adds two experts of a group, but it has one");
  need_sizes(kOp, "bias", bias, {experts});
  TORCH_CHECK(given(ids) == given(table), kOp, ": input_ids and tid2eid go together; give both or none");
  need_integers(kOp, "input_ids", ids);
  need_integers(kOp, "tid2eid", table);
  if (given(ids)) need_dims(kOp, "x", x, {2});
  need_elements(kOp, "input_ids", ids, {row_count(x)});
  need_sizes(kOp, "tid2eid", table, {-1, n.k});
}

void check_gate_gradient(const at::Tensor& scores, const at::Tensor& grad, const at::Tensor& experts, int64_t renorm,
                         int64_t norm) {
  constexpr const char* kOp = "npu_moe_gating_top_k_backward";
  check_number(kOp, "norm_type", norm, {0, 1, 2});
  check_number(kOp, "renorm", renorm, {0, 1});
  TORCH_CHECK(scores.dim() > 0 && grad.dim() == scores.dim(), kOp, ": x_norm has ", scores.dim(),
              " dimensions and grad_y ", grad.dim());
  need_integers(kOp, "expertIdx", experts);
  check_same_sizes(kOp, "grad_y", grad, "expertIdx", experts);
  for (int64_t d = 0; d + 1 < scores.dim(); ++d) {
    TORCH_SYM_CHECK(scores.sym_size(d).sym_eq(grad.sym_size(d)), kOp, ": dimension ", d, " of x_norm is ",
                    scores.sym_size(d), ", that of grad_y ", grad.sym_size(d));
  }
}

c10::SymInt expert_row_count(const at::Tensor& experts, int64_t active, int64_t capacity, int64_t count,
                             int64_t padded) {
  if (padded == 1) return count * capacity;
  const c10::SymInt all = experts.sym_numel();
  return active > 0 ? all.min(active) : all;
}

Sizes expert_rows(const at::Tensor& x, const at::Tensor& experts, int64_t active, int64_t capacity, int64_t count,
                  int64_t padded) {
  if (padded == 1) return {count, capacity, x.sym_size(1)};
  return {expert_row_count(experts, active, capacity, count, padded), x.sym_size(1)};
}

int64_t expert_span(at::IntArrayRef range, int64_t count) { return range.size() == 2 ? range[1] - range[0] : count; }

void check_routing(const char* op, const at::Tensor& experts, RoutingNumbers n, at::IntArrayRef range) {
  need_type(op, "expert_idx", experts, {at::kInt});
  check_number(op, "row_idx_type", n.rows, {0, 1});
  check_number(op, "expert_tokens_num_type", n.counts, {0, 1, 2});
  TORCH_CHECK_VALUE(range.empty() || range.size() == 2, op, ": active_expert_range has two members, not ",
                    range.size());
  TORCH_CHECK_VALUE(n.experts > 0 || (range.size() == 2 && n.padded == 0 && n.counts != 2), op,
                    ": the range of experts is empty; give active_expert_range or expert_num");
  if (range.size() == 2) {
    TORCH_CHECK_VALUE(range[0] >= 0 && range[0] < range[1] && (n.experts <= 0 || range[1] <= n.experts), op,
                      ": active_expert_range is ", range, " of expert_num ", n.experts, " experts");
  }
  TORCH_CHECK_VALUE(n.padded != 1 || n.capacity > 0, op, ": drop_pad_mode 1 needs expert_capacity, not ", n.capacity);
}

void check_expert_rows(const char* op, const at::Tensor& x, const at::Tensor& experts, int64_t padded, int64_t mode,
                       int64_t span, const OptionalTensor& scale, const OptionalTensor& offset) {
  need_dims(op, "x", x, {2});
  need_dims(op, "expert_idx", experts, {2});
  TORCH_SYM_CHECK(x.sym_size(0).sym_eq(experts.sym_size(0)), op, ": ", x.sym_size(0), " rows and experts of ",
                  experts.sym_size(0));
  TORCH_CHECK_VALUE(padded == 0 || padded == 1, op, ": drop_pad_mode is 0 or 1, not ", padded);
  check_number(op, "quant_mode", mode, {-1, 0, 1});
  TORCH_CHECK(mode != 0 || (given(scale) && given(offset)), op, ": static quantization needs scale and offset");
  TORCH_CHECK(mode == 0 || !given(offset), op, ": offset goes with quant_mode 0; leave it out");
  const c10::SymInt columns = x.sym_size(1);
  if (given(scale))
    need_dims(op, "scale", *scale,
              mode == 1 ? std::initializer_list<int64_t>{1, 2} : std::initializer_list<int64_t>{1});
  if (mode == -1) need_elements(op, "scale", scale, {x.sym_size(0)});
  if (mode == 0) need_elements(op, "scale", scale, {1});
  if (mode == 0) need_elements(op, "offset", offset, {1});
  if (mode == 1) need_elements(op, "scale", scale, {columns, columns * span});
}

void check_re_routing(const at::Tensor& tokens, const at::Tensor& counts, const OptionalTensor& scales,
                      int64_t count_type, int64_t index_type) {
  constexpr const char* kOp = "npu_moe_re_routing";
  check_number(kOp, "expert_token_num_type", count_type, {0, 1});
  check_number(kOp, "idx_type", index_type, {0, 1});
  need_dims(kOp, "tokens", tokens, {2});
  need_dims(kOp, "expert_token_num_per_rank", counts, {2});
  need_integers(kOp, "expert_token_num_per_rank", counts);
  if (!given(scales)) return;
  need_dims(kOp, "per_token_scales", *scales, {1, 2});
  TORCH_SYM_CHECK(scales->sym_size(0).sym_eq(tokens.sym_size(0)), kOp, ": ", tokens.sym_size(0), " tokens and ",
                  scales->sym_size(0), " per_token_scales");
}

c10::SymInt finalized_places(const OptionalTensor& scales, std::optional<int64_t> k) {
  if (!given(scales)) return k.value_or(1);
  need_dims("npu_moe_finalize_routing", "scales", *scales, {2});
  return scales->sym_size(1);
}

void check_finalized(const at::Tensor& rows, const OptionalTensor& bias, const OptionalTensor& scales,
                     const OptionalTensor& experts, std::optional<int64_t> mode, std::optional<int64_t> k) {
  constexpr const char* kOp = "npu_moe_finalize_routing";
  check_number(kOp, "drop_pad_mode", mode.value_or(0), {0, 1, 2, 3});
  need_dims(kOp, "expanded_permuted_rows", rows, {2, 3});
  TORCH_CHECK(!given(bias) || given(experts), kOp, ": bias is one a row's expert; give export_for_source_row, too");
  const c10::SymInt each = finalized_places(scales, k);
  TORCH_SYM_CHECK(each.sym_gt(0), kOp, ": a token has ", each, " places (columns of scales, or k), not 1 or more");
}

c10::SymInt map_rows(const at::Tensor& tokens, const at::Tensor& map, std::optional<int64_t> wanted, bool padded) {
  const c10::SymInt count = wanted ? c10::SymInt(*wanted) : tokens.sym_size(0), each = map.sym_size(padded ? 1 : 0);
  return each == 0 ? c10::SymInt(0) : count / each * each;
}

void check_map(const char* op, const at::Tensor& tokens, const at::Tensor& map, const OptionalTensor& probs,
               std::optional<int64_t> wanted, bool padded) {
  TORCH_CHECK(tokens.dim() == 2 && map.dim() == 2, op, ": tokens and routing_map have two dimensions, not ",
              tokens.dim(), " and ", map.dim());
  need_map(op, map);
  TORCH_SYM_CHECK(map.sym_size(1).sym_gt(0), op, ": the routing map has no elements");
  TORCH_SYM_CHECK(tokens.sym_size(0).sym_eq(map.sym_size(0)), op, ": ", tokens.sym_size(0),
                  " tokens, but routing_map has ", map.sym_size(0), " rows");
  TORCH_CHECK(!given(probs) || probs->sym_sizes() == map.sym_sizes(), op, ": probs and routing_map differ in sizes");
  const c10::SymInt count = wanted ? c10::SymInt(*wanted) : tokens.sym_size(0);
  TORCH_SYM_CHECK(count.sym_ge(0), op, ": num_out_tokens is ", count);
  if (!padded && wanted && !TORCH_GUARD_OR_FALSE(tokens.sym_size(0).sym_eq(0))) {
    TORCH_SYM_CHECK((count % tokens.sym_size(0)).sym_eq(0), op, ": num_out_tokens ", count, " is no multiple of the ",
                    tokens.sym_size(0), " tokens, each of which goes to as many experts");
  }
  TORCH_SYM_CHECK((padded ? count / map.sym_size(1) : c10::SymInt(0)).sym_le(tokens.sym_size(0)), op,
                  ": num_out_tokens ", count, " are more rows of each expert than the ", tokens.sym_size(0), " tokens");
}

void check_map_gradient(const at::Tensor& grad, const OptionalTensor& prob_grad, const at::Tensor& places,
                        const at::Tensor& map, const c10::SymInt& experts, const c10::SymInt& tokens, bool padded) {
  constexpr const char* kOp = "npu_moe_token_permute_with_routing_map_grad";
  need_dims(kOp, "permuted_token_out_grad", grad, {2});
  need_sizes(kOp, "sorted_indices", places, {grad.sym_size(0)});
  need_map(kOp, map);
  need_sizes(kOp, "routing_map", map, {tokens, experts});
  need_elements(kOp, "probs_grad", prob_grad, {grad.sym_size(0)});
  TORCH_CHECK(!padded || experts > 0, kOp, ": experts_num is ", experts);
}

void check_unmap(const at::Tensor& rows, const at::Tensor& places, const OptionalTensor& map,
                 const OptionalTensor& probs, at::IntArrayRef shape, bool padded) {
  constexpr const char* kOp = "npu_moe_token_unpermute_with_routing_map";
  need_shape(kOp, shape);
  need_sizes(kOp, "permuted_tokens", rows, {-1, shape[1]});
  need_dims(kOp, "sorted_indices", places, {1});
  if (given(map)) need_map(kOp, *map);
  need_sizes(kOp, "routing_map", map, {shape[0], -1});
  need_sizes(kOp, "probs", probs, {shape[0], -1});
  TORCH_CHECK(!given(probs) || padded || given(map), kOp, ": probs need the routing_map");
  TORCH_CHECK(!given(probs) || !given(map) || probs->sym_sizes() == map->sym_sizes(), kOp,
              ": probs and routing_map differ in sizes");
  if (padded) return need_sizes(kOp, "sorted_indices", places, {rows.sym_size(0)});
  TORCH_CHECK(given(map) || (shape[0] > 0 && places.sym_size(0) % shape[0] == 0), kOp, ": ", places.sym_size(0),
              " sorted_indices of ", shape[0], " tokens need the routing_map");
}

void check_unmap_gradient(const at::Tensor& grad, const at::Tensor& places, const at::Tensor& ids,
                          const OptionalTensor& map, const OptionalTensor& rows, const OptionalTensor& probs,
                          at::IntArrayRef shape, bool padded) {
  constexpr const char* kOp = "npu_moe_token_unpermute_with_routing_map_grad";
  need_shape(kOp, shape);
  need_sizes(kOp, "unpermuted_tokens_grad", grad, {shape[0], shape[1]});
  need_dims(kOp, "out_index", places, {1});
  need_sizes(kOp, "permuted_token_id", ids, {places.sym_size(0)});
  if (given(map)) need_map(kOp, *map);
  need_sizes(kOp, "routing_map", map, {shape[0], -1});
  need_sizes(kOp, "probs", probs, {shape[0], -1});
  need_sizes(kOp, "permuted_tokens", rows, {-1, shape[1]});
  if (given(map)) need_sizes(kOp, "probs", probs, sizes_of(*map));
  TORCH_CHECK(!given(probs) || (given(rows) && (padded || given(map))), kOp,
              ": probs need permuted_tokens and routing_map");
  TORCH_CHECK(padded || given(map) || (shape[0] > 0 && places.sym_size(0) % shape[0] == 0), kOp, ": ",
              places.sym_size(0), " rows of ", shape[0], " tokens need the routing_map");
}

void check_permute_gradient(const at::Tensor& grad, const at::Tensor& places, const c10::SymInt& tokens,
                            const c10::SymInt& k) {
  constexpr const char* kOp = "npu_moe_token_permute_grad_v2";
  need_dims(kOp, "grad_permuted_tokens", grad, {2});
  need_dims(kOp, "sorted_indices", places, {1});
  TORCH_SYM_CHECK(tokens.sym_ge(0).sym_and(k.sym_gt(0)), kOp, ": tokens_size_0 is ", tokens, ", num_topK ", k);
  TORCH_SYM_CHECK(places.sym_size(0).sym_eq(tokens * k), kOp, ": ", places.sym_size(0),
                  " sorted_indices are not tokens_size_0 * num_topK, ", tokens * k);
}

void check_unpermute_gradient(const at::Tensor& grad, const at::Tensor& places, const c10::SymInt& rows,
                              const OptionalTensor& probs, const OptionalTensor& permuted) {
  constexpr const char* kOp = "npu_moe_token_unpermute_grad_v2";
  need_dims(kOp, "grad_unpermuted_tokens", grad, {2});
  need_dims(kOp, "sorted_indices", places, {1});
  TORCH_SYM_CHECK(rows.sym_ge(0), kOp, ": permuted_tokens_size_0 is ", rows);
  need_sizes(kOp, "permuted_tokens", permuted, {rows, grad.sym_size(1)});
  need_sizes(kOp, "probs", probs, {grad.sym_size(0), -1});
  need_elements(kOp, "probs", probs, {places.sym_size(0)});
  TORCH_CHECK(!given(probs) || given(permuted), kOp, ": probs need permuted_tokens");
}

void check_replicas(const at::Tensor& ids, const at::Tensor& table, const OptionalTensor& scales,
                    const OptionalTensor& threshold, const OptionalTensor& active, int64_t rank, int64_t ranks,
                    int64_t mode) {
  constexpr const char* kOp = "npu_moe_update_expert";
  check_number(kOp, "balance_mode", mode, {0, 1});
  TORCH_CHECK_VALUE(mode == 1 || (rank >= 0 && rank < ranks), kOp, ": local_rank_id is ", rank, " of world_size ",
                    ranks, "; balance_mode 0 needs both");
  need_dims(kOp, "expert_ids", ids, {2});
  need_dims(kOp, "eplb_table", table, {2});
  need_integers(kOp, "expert_ids", ids);
  need_integers(kOp, "eplb_table", table);
  TORCH_CHECK(given(scales) == given(threshold), kOp, ": expert_scales and pruning_threshold go together");
  need_sizes(kOp, "expert_scales", scales, sizes_of(ids));
  need_elements(kOp, "pruning_threshold", threshold, {ids.sym_size(1), 1});
  need_sizes(kOp, "active_mask", active, {ids.sym_size(0)});
}

void check_routing_quant(const at::Tensor& x, const at::Tensor& expert_idx, const OptionalTensor& scale,
                         const OptionalTensor& offset, int64_t expert_capacity, int64_t expert_num,
                         int64_t drop_pad_mode, int64_t expert_tokens_num_mode, int64_t quant_mode) {
  constexpr const char* kOp = "npu_moe_init_routing_quant";
  check_routing(kOp, expert_idx, {expert_num, expert_capacity, drop_pad_mode}, {});
  check_number(kOp, "expert_tokens_num_mode", expert_tokens_num_mode, {0, 1, 2});
  check_expert_rows(kOp, x, expert_idx, drop_pad_mode, quant_mode, expert_num, scale, offset);
  check_number(kOp, "quant_mode", quant_mode, {0, 1});
}

void check_routing_v2(const at::Tensor& x, const at::Tensor& expert_idx, const OptionalTensor& scale,
                      const OptionalTensor& offset, int64_t expert_capacity, int64_t expert_num, int64_t drop_pad_mode,
                      int64_t expert_tokens_num_type, int64_t quant_mode, at::IntArrayRef active_expert_range,
                      int64_t row_idx_type, std::optional<int64_t> x_dtype) {
  constexpr const char* kOp = "npu_moe_init_routing_v2";
  check_routing(kOp, expert_idx, {expert_num, expert_capacity, drop_pad_mode, expert_tokens_num_type, row_idx_type},
                active_expert_range);
  refuse_given(kOp, "x_dtype", x_dtype);
  if (quant_mode != -1) {
    need_type(kOp, "x", x, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
  } else if (given(scale) && holds_elements(*scale)) {
    need_type(kOp, "scale", scale, {at::kFloat});  // rows of it are expanded_scale
  }
  check_expert_rows(kOp, x, expert_idx, drop_pad_mode, quant_mode, expert_span(active_expert_range, expert_num), scale,
                    offset);
}

void gate_into(const at::Tensor& x, int64_t k, const OptionalTensor& bias, const OptionalTensor& input_ids,
               const OptionalTensor& tid2eid, int64_t k_group, int64_t group_count, int64_t group_select_mode,
               int64_t renorm, int64_t norm_type, bool out_flag, double routed_scaling_factor, double eps,
               at::Tensor& y, at::Tensor& expert_idx, at::Tensor& scores) {
  if (given(input_ids)) {
    ACLNN(aclnnMoeGatingTopKV2)(x, bias, input_ids, tid2eid, k, k_group, group_count, group_select_mode, renorm,
                                norm_type, out_flag, routed_scaling_factor, eps, y, expert_idx, scores);
  } else {
    ACLNN(aclnnMoeGatingTopK)(x, bias, k, k_group, group_count, group_select_mode, renorm, norm_type, out_flag,
                              routed_scaling_factor, eps, y, expert_idx, scores);
  }
}

}  // namespace npu::ops
