// Experts on the ranks of a group: tokens go to the ranks of their experts, and the experts' results come back. CANN has both under several
// names, by what is given. Who uses it: `check:`, `out:` and `call:` of rows of ops/npu.yaml. What it is not: products with an exchange
// (group_products.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

// Which ranks have which experts. `tokens` is what the caller gives for all ranks together; 0: each has as many as this one.
struct ExpertGroup {
  std::string_view group;
  int64_t ranks, rank, experts;
  std::string_view tp_group;
  int64_t tp_ranks, tp_rank, shard, shared, shared_ranks, tokens;

  bool holds_shared() const { return rank < shared_ranks; }
  int64_t local() const { return holds_shared() ? 1 : experts / (ranks - shared_ranks); }
};
struct SpecialExperts {  // their numbers follow those of the others
  std::string_view algorithm{};
  int64_t zero = 0, copy = 0, constant = 0;
  bool any() const { return zero || copy || constant; }
};
void check_expert_group(const char* op, const ExpertGroup& g, const at::Tensor& ids, const OptionalTensor& mask,
                        const SpecialExperts& s);

// -- dispatch. The most rows that a rank can get decide the sizes.
c10::SymInt received_rows(const ExpertGroup& g, const at::Tensor& ids, bool second);
c10::SymInt received_counts(const ExpertGroup& g, const at::Tensor& ids, const OptionalTensor& weights);
c10::SymInt records_of(const ExpertGroup& g, const at::Tensor& ids);
struct DispatchInput {
  const at::Tensor &x, &ids;
  const OptionalTensor &scales, &mask, &weights;
  int64_t mode, count_kind;
};
struct DispatchOutput {
  at::Tensor &rows, &scales, &places, &counts, &ends, &tp_counts, &weights;
};
void check_dispatch(const char* op, const ExpertGroup& g, const DispatchInput& in, const SpecialExperts& s = {});
void check_dispatch_v2(const ExpertGroup& g, const DispatchInput& in, const SpecialExperts& s,
                       const OptionalTensor& elastic, const OptionalTensor& performance,
                       const std::optional<int64_t>& x_type, const std::optional<int64_t>& scales_type,
                       const std::optional<int64_t>& type);
void dispatch_into(const DispatchInput& in, const ExpertGroup& g, const DispatchOutput& out);
// `type` is what y_dtype names; x that x_dtype names hifloat8 is read so already.
Result dispatched_rows(const ExpertGroup& g, const DispatchInput& in, const std::optional<int64_t>& type);
Result dispatched_scales(const ExpertGroup& g, const DispatchInput& in);
void dispatch_v2_into(const DispatchInput& in, const ExpertGroup& g, const SpecialExperts& s,
                      const std::optional<int64_t>& type, const DispatchOutput& out);

// -- combine
struct CombineInput {
  const at::Tensor &rows, &ids, &places, &ends, &weights;
  const OptionalTensor &tp_ends, &mask, &row_weights, &shared_x;
  int64_t coding;
};
struct SpecialOperands {
  const OptionalTensor &x, &alpha1, &alpha2, &v;
};
struct RefusedScales {
  const OptionalTensor &activation, &weight, &groups;
};
void check_combine(const char* op, const ExpertGroup& g, const CombineInput& in, const SpecialExperts& s,
                   const SpecialOperands& operands);
void check_combine_v1(const ExpertGroup& g, const CombineInput& in, const RefusedScales& refused);
void check_combine_v2(const ExpertGroup& g, const CombineInput& in, const SpecialExperts& s,
                      const SpecialOperands& operands, const OptionalTensor& elastic,
                      const OptionalTensor& performance);
void combine_into(const CombineInput& in, const ExpertGroup& g, at::Tensor& out);
void combine_v2_into(const CombineInput& in, const ExpertGroup& g, const SpecialExperts& s,
                     const SpecialOperands& operands, at::Tensor& out);
struct ResidualNorm {
  const at::Tensor &residual, &gamma;
  double eps;
};
void check_combine_norm(const ExpertGroup& g, const CombineInput& in, const SpecialExperts& s,
                        const SpecialOperands& operands, const ResidualNorm& n, const RefusedScales& refused,
                        const OptionalTensor& elastic);
void combine_norm_into(const CombineInput& in, const ExpertGroup& g, const SpecialExperts& s,
                       const SpecialOperands& operands, const ResidualNorm& n, at::Tensor& y, at::Tensor& rstd,
                       at::Tensor& x);

}  // namespace npu::ops
