// See distributed_experts.h.
#include "csrc/ops/npu/distributed_experts.h"

#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

const OptionalTensor kNone;

c10::SymInt all_tokens(const ExpertGroup& g, const at::Tensor& ids) {
  return g.tokens ? c10::SymInt(g.tokens) : ids.sym_size(0) * g.ranks;
}

// As CANN takes it: never 0.
int64_t all_tokens_now(const ExpertGroup& g, const at::Tensor& ids) { return all_tokens(g, ids).expect_int(); }

}  // namespace

void check_expert_group(const char* op, const ExpertGroup& g, const at::Tensor& ids, const OptionalTensor& mask,
                        const SpecialExperts& s) {
  TORCH_CHECK_VALUE(!g.group.empty() && g.group.size() < 128, op, ": group_ep '", g.group,
                    "' is no communicator's name; get_hccl_comm_name of the group's backend gives it");
  TORCH_CHECK_VALUE(g.ranks > 0 && g.rank >= 0 && g.rank < g.ranks, op, ": ep_rank_id is ", g.rank, " of ", g.ranks,
                    " ranks (ep_world_size)");
  TORCH_CHECK_VALUE(g.shared_ranks >= 0 && g.shared_ranks < g.ranks, op, ": shared_expert_rank_num is ", g.shared_ranks,
                    " of ", g.ranks, " ranks");
  TORCH_CHECK_VALUE(!g.shared_ranks || (g.shared > 0 && g.shared_ranks % g.shared == 0), op,
                    ": shared_expert_rank_num ", g.shared_ranks, " is no multiple of shared_expert_num ", g.shared);
  TORCH_CHECK_VALUE(g.experts > 0 && g.experts % (g.ranks - g.shared_ranks) == 0, op, ": moe_expert_num ", g.experts,
                    " is no multiple of ", g.ranks - g.shared_ranks, " ranks");
  TORCH_CHECK_VALUE(g.tokens >= 0 && g.tokens % g.ranks == 0, op, ": global_bs ", g.tokens, " is no multiple of ",
                    g.ranks, " ranks");
  TORCH_CHECK_NOT_IMPLEMENTED(g.tp_ranks == 0 || g.tp_ranks == 1, op, ": tp_world_size ", g.tp_ranks,
                              " is not implemented; 0 and 1 are");
  check_number(op, "expert_shard_type", g.shard, {0});
  check_word(op, "comm_alg", s.algorithm, {"", "fullmesh", "hierarchy", "fullmesh_v1", "fullmesh_v2"});
  TORCH_CHECK_VALUE(s.zero >= 0 && s.copy >= 0 && s.constant >= 0, op, ": a number of experts is below zero");
  need_dims(op, "expert_ids", ids, {2});
  need_type(op, "expert_ids", ids, {at::kInt});
  need_type(op, "x_active_mask", mask, {at::kBool});
  if (given(mask)) need_dims(op, "x_active_mask", *mask, {1, 2});
}

c10::SymInt received_rows(const ExpertGroup& g, const at::Tensor& ids, bool second) {
  const c10::SymInt all = all_tokens(g, ids);
  if (!g.holds_shared()) return all * c10::SymInt(g.local()).min(ids.sym_size(1));
  if (!second) return all / g.shared_ranks;
  const int64_t copies = g.shared_ranks / g.shared;
  return all / g.ranks * ((g.ranks + copies - 1) / copies);
}

// With the choices' weights CANN keeps more behind the counts, of servers of eight.
c10::SymInt received_counts(const ExpertGroup& g, const at::Tensor& ids, const OptionalTensor& weights) {
  const c10::SymInt counts = g.ranks * g.local();
  return given(weights) ? counts + all_tokens(g, ids) * ids.sym_size(1) * (2 * (g.ranks / 8)) : counts;
}

c10::SymInt records_of(const ExpertGroup& g, const at::Tensor& ids) {
  return ids.sym_numel().max(received_rows(g, ids, true) * 128);
}

namespace {

// What does not depend on quant_mode.
void check_sent(const char* op, const ExpertGroup& g, const DispatchInput& in, const SpecialExperts& s) {
  check_expert_group(op, g, in.ids, in.mask, s);
  need_dims(op, "x", in.x, {2});
  need_sizes(op, "expert_ids", in.ids, {in.x.sym_size(0), -1});
  need_type(op, "scales", in.scales, {at::kFloat});
  need_type(op, "expert_scales", in.weights, {at::kFloat});
  if (given(in.weights)) need_sizes(op, "expert_scales", *in.weights, sizes_of(in.ids));
  check_number(op, "expert_token_nums_type", in.count_kind, {0, 1});
}

int64_t experts_of(const ExpertGroup& g) { return g.experts + (g.shared_ranks ? g.shared : 0); }

// quant_mode 1: one factor for all, or of int8 one for each column, of all experts or of each.
void check_factors(const char* op, const ExpertGroup& g, const DispatchInput& in, bool codes) {
  TORCH_CHECK_VALUE(given(in.scales), op, ": scales are needed with quant_mode 1");
  if (codes) return need_sizes(op, "scales", *in.scales, {1});
  need_dims(op, "scales", *in.scales, {1, 2});
  const c10::SymInt columns = in.x.sym_size(1);
  if (in.scales->dim() == 2) return need_sizes(op, "scales", *in.scales, {experts_of(g), columns});
  need_elements(op, "scales", *in.scales, {1, columns});
}

}  // namespace

void check_dispatch(const char* op, const ExpertGroup& g, const DispatchInput& in, const SpecialExperts& s) {
  need_type(op, "x", in.x, {at::kHalf, at::kBFloat16, at::kFloat});
  check_sent(op, g, in, s);
  check_number(op, "quant_mode", in.mode, {0, 2});
  TORCH_CHECK_VALUE(in.mode == 2 || !given(in.scales), op, ": scales are of quant_mode 2");
  need_sizes(op, "scales", in.scales, {experts_of(g), in.x.sym_size(1)});
}

void check_dispatch_v2(const ExpertGroup& g, const DispatchInput& in, const SpecialExperts& s,
                       const OptionalTensor& elastic, const OptionalTensor& performance,
                       const std::optional<int64_t>& x_type, const std::optional<int64_t>& scales_type,
                       const std::optional<int64_t>& type) {
  constexpr const char* kOp = "npu_moe_distribute_dispatch_v2";
  const bool codes = is_hifloat8(in.x), to_codes = names_hifloat8(type);
  refuse_given(kOp, {{"elastic_info", elastic}, {"performance_info", performance}});
  check_number(kOp, "quant_mode", in.mode, {0, 1, 2});
  if (!codes) check_dtypes(kOp, {{"x_dtype", x_type, in.x}});
  check_dtypes(kOp, {{"scales_dtype", scales_type, in.scales}});
  if (!codes && in.mode != 1) {
    check_dispatch(kOp, g, in, s);
    TORCH_CHECK_VALUE(!to_codes || (in.mode == 0 && in.x.scalar_type() != at::kFloat), kOp,
                      ": y_dtype torch_npu.hifloat8 goes with quant_mode 0 of float16 and bfloat16, and with 1");
  } else {
    need_type(kOp, "x", in.x, {at::kHalf, at::kBFloat16, at::kFloat, kHifloat8Codes});
    check_sent(kOp, g, in, s);
    TORCH_CHECK_VALUE(!codes || in.mode == 0, kOp, ": x of hifloat8 goes with quant_mode 0, not ", in.mode);
    if (codes) {
      TORCH_CHECK_VALUE(given(in.scales), kOp, ": scales, [tokens, n], are needed with x of hifloat8");
      need_sizes(kOp, "scales", *in.scales, {in.x.sym_size(0), -1});
      TORCH_SYM_CHECK(in.scales->sym_size(1).sym_le(in.x.sym_size(1)), kOp, ": scales have ", in.scales->sym_size(1),
                      " columns, at most the ", in.x.sym_size(1), " of x are expected");
    } else {
      check_factors(kOp, g, in, to_codes);
    }
  }
  const at::ScalarType made = in.mode != 0 ? at::kChar : codes ? kHifloat8Codes : in.x.scalar_type();
  if (!to_codes) check_result_type(kOp, "y_dtype", type, made);
}

Result dispatched_rows(const ExpertGroup& g, const DispatchInput& in, const std::optional<int64_t>& type) {
  const at::ScalarType own = in.mode == 0 ? stored(in.x.scalar_type()) : at::kChar;
  return sized({received_rows(g, in.ids, true), in.x.sym_size(1)}, names_hifloat8(type) ? at::kByte : own);
}

Result dispatched_scales(const ExpertGroup& g, const DispatchInput& in) {
  const c10::SymInt rows = received_rows(g, in.ids, true);
  return is_hifloat8(in.x) ? sized({rows, in.scales->sym_size(1)}, at::kFloat) : sized({rows}, at::kFloat);
}

void dispatch_into(const DispatchInput& in, const ExpertGroup& g, const DispatchOutput& out) {
  ACLNN(aclnnMoeDistributeDispatch)
  (in.x, in.ids, in.scales, in.mask, in.weights, g.group, g.ranks, g.rank, g.experts, g.tp_group, g.tp_ranks, g.tp_rank,
   g.shard, g.shared, g.shared_ranks, in.mode, all_tokens_now(g, in.ids), in.count_kind, out.rows, out.scales,
   out.places, out.counts, out.ends, out.tp_counts, out.weights);
}

void dispatch_v2_into(const DispatchInput& in, const ExpertGroup& g, const SpecialExperts& s,
                      const std::optional<int64_t>& type, const DispatchOutput& out) {
  const at::Tensor rows = is_hifloat8(in.x) ? out.rows.view(kHifloat8Codes) : read_as(out.rows, type);
  if (s.any()) {
    ACLNN(aclnnMoeDistributeDispatchV3)
    (in.x, in.ids, in.scales, in.mask, in.weights, kNone, g.group, g.ranks, g.rank, g.experts, g.tp_group, g.tp_ranks,
     g.tp_rank, g.shard, g.shared, g.shared_ranks, in.mode, all_tokens_now(g, in.ids), in.count_kind, s.algorithm,
     s.zero, s.copy, s.constant, rows, out.scales, out.places, out.counts, out.ends, out.tp_counts, out.weights);
  } else {
    ACLNN(aclnnMoeDistributeDispatchV2)
    (in.x, in.ids, in.scales, in.mask, in.weights, g.group, g.ranks, g.rank, g.experts, g.tp_group, g.tp_ranks,
     g.tp_rank, g.shard, g.shared, g.shared_ranks, in.mode, all_tokens_now(g, in.ids), in.count_kind, s.algorithm, rows,
     out.scales, out.places, out.counts, out.ends, out.tp_counts, out.weights);
  }
}

void check_combine(const char* op, const ExpertGroup& g, const CombineInput& in, const SpecialExperts& s,
                   const SpecialOperands& operands) {
  check_expert_group(op, g, in.ids, in.mask, s);
  need_dims(op, "expand_x", in.rows, {2});
  need_type(op, "expand_x", in.rows, {at::kHalf, at::kBFloat16, at::kFloat});
  need_type(op, "expert_scales", in.weights, {at::kFloat});
  need_sizes(op, "expert_scales", in.weights, sizes_of(in.ids));
  need_type(op, "ep_send_counts", in.ends, {at::kInt});
  check_number(op, "comm_quant_mode", in.coding, {0});
  TORCH_CHECK_VALUE(g.shared_ranks >= 0 && ((!s.copy && !s.constant) || given(operands.x)), op,
                    ": ori_x is needed with copy_expert_num or const_expert_num");
  for (const auto& [name, t] : {std::pair{"const_expert_alpha_1", &operands.alpha1},
                                {"const_expert_alpha_2", &operands.alpha2},
                                {"const_expert_v", &operands.v}}) {
    TORCH_CHECK_VALUE(!s.constant || given(*t), op, ": ", name, " is needed with const_expert_num");
    if (given(*t)) need_sizes(op, name, **t, {s.constant, in.rows.sym_size(1)});
  }
  const Sizes tokens{in.ids.sym_size(0), in.rows.sym_size(1)};
  need_sizes(op, "ori_x", operands.x, tokens);
  need_elements(op, "shared_expert_x", in.shared_x, {tokens[0] * tokens[1]});
}

void check_combine_v1(const ExpertGroup& g, const CombineInput& in, const RefusedScales& refused) {
  constexpr const char* kOp = "npu_moe_distribute_combine";
  check_combine(kOp, g, in, {}, {kNone, kNone, kNone, kNone});
  refuse_given(kOp, {{"activation_scale", refused.activation},
                     {"weight_scale", refused.weight},
                     {"group_list", refused.groups},
                     {"shared_expert_x", in.shared_x}});
}

void check_combine_v2(const ExpertGroup& g, const CombineInput& in, const SpecialExperts& s,
                      const SpecialOperands& operands, const OptionalTensor& elastic,
                      const OptionalTensor& performance) {
  constexpr const char* kOp = "npu_moe_distribute_combine_v2";
  check_combine(kOp, g, in, s, operands);
  refuse_given(kOp, {{"elastic_info", elastic}, {"performance_info", performance}});
}

void combine_into(const CombineInput& in, const ExpertGroup& g, at::Tensor& out) {
  ACLNN(aclnnMoeDistributeCombine)
  (in.rows, in.ids, in.places, in.ends, in.weights, in.tp_ends, in.mask, kNone, kNone, kNone, in.row_weights, g.group,
   g.ranks, g.rank, g.experts, g.tp_group, g.tp_ranks, g.tp_rank, g.shard, g.shared, g.shared_ranks,
   all_tokens_now(g, in.ids), 0, in.coding, 0, out);
}

void combine_v2_into(const CombineInput& in, const ExpertGroup& g, const SpecialExperts& s,
                     const SpecialOperands& operands, at::Tensor& out) {
  if (s.any()) {
    ACLNN(aclnnMoeDistributeCombineV3)
    (in.rows, in.ids, in.places, in.ends, in.weights, in.tp_ends, in.mask, kNone, kNone, kNone, in.row_weights,
     in.shared_x, kNone, operands.x, operands.alpha1, operands.alpha2, operands.v, g.group, g.ranks, g.rank, g.experts,
     g.tp_group, g.tp_ranks, g.tp_rank, g.shard, g.shared, g.shared_ranks, all_tokens_now(g, in.ids), 0, in.coding, 0,
     s.algorithm, s.zero, s.copy, s.constant, out);
  } else {
    ACLNN(aclnnMoeDistributeCombineV2)
    (in.rows, in.ids, in.places, in.ends, in.weights, in.tp_ends, in.mask, kNone, kNone, kNone, in.row_weights,
     in.shared_x, g.group, g.ranks, g.rank, g.experts, g.tp_group, g.tp_ranks, g.tp_rank, g.shard, g.shared,
     g.shared_ranks, all_tokens_now(g, in.ids), 0, in.coding, 0, s.algorithm, out);
  }
}

void check_combine_norm(const ExpertGroup& g, const CombineInput& in, const SpecialExperts& s,
                        const SpecialOperands& operands, const ResidualNorm& n, const RefusedScales& refused,
                        const OptionalTensor& elastic) {
  constexpr const char* kOp = "npu_moe_distribute_combine_add_rms_norm";
  check_combine(kOp, g, in, s, operands);
  refuse_given(kOp, {{"activation_scale", refused.activation},
                     {"weight_scale", refused.weight},
                     {"group_list", refused.groups},
                     {"elastic_info", elastic}});
  need_elements(kOp, "residual_x", n.residual, {in.ids.sym_size(0) * in.rows.sym_size(1)});
  need_sizes(kOp, "gamma", n.gamma, {in.rows.sym_size(1)});
}

void combine_norm_into(const CombineInput& in, const ExpertGroup& g, const SpecialExperts& s,
                       const SpecialOperands& operands, const ResidualNorm& n, at::Tensor& y, at::Tensor& rstd,
                       at::Tensor& x) {
  if (s.any()) {
    ACLNN(aclnnMoeDistributeCombineAddRmsNormV2)
    (in.rows, in.ids, in.places, in.ends, in.weights, n.residual, n.gamma, in.tp_ends, in.mask, kNone, kNone, kNone,
     in.row_weights, in.shared_x, kNone, operands.x, operands.alpha1, operands.alpha2, operands.v, g.group, g.ranks,
     g.rank, g.experts, g.tp_group, g.tp_ranks, g.tp_rank, g.shard, g.shared, g.shared_ranks, all_tokens_now(g, in.ids),
     0, in.coding, 0, s.algorithm, n.eps, s.zero, s.copy, s.constant, y, rstd, x);
  } else {
    ACLNN(aclnnMoeDistributeCombineAddRmsNorm)
    (in.rows, in.ids, in.places, in.ends, in.weights, n.residual, n.gamma, in.tp_ends, in.mask, kNone, kNone, kNone,
     in.row_weights, in.shared_x, g.group, g.ranks, g.rank, g.experts, g.tp_group, g.tp_ranks, g.tp_rank, g.shard,
     g.shared, g.shared_ranks, all_tokens_now(g, in.ids), 0, in.coding, 0, s.algorithm, n.eps, y, rstd, x);
  }
}

}  // namespace npu::ops
