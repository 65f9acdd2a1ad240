// Mixture of experts in the forms that inference and Megatron call: gating in groups, rows sorted by expert with counts and quantization,
// rows by a map of tokens and experts, rows of several ranks. Who calls it: expressions of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::ops::kernels {

// -- gate.cpp. What a token's scores become; `norm` is 0 softmax, 1 sigmoid, 2 the root of softplus.
struct Gate {
  int64_t k = 1, chosen_groups = 1, groups = 1, group_mode = 0, renorm = 0, norm = 0;
  double factor = 1, eps = 0;
  bool divides() const { return norm != 0 || renorm == 1; }
};
// Instead of the best k a table may say which experts a token's number has.
struct GateTable {
  const std::optional<at::Tensor>&ids, &experts;
};
void moe_gate(const at::Tensor& x, const std::optional<at::Tensor>& bias, const GateTable& table, const Gate& gate,
              at::Tensor& y, at::Tensor& experts, at::Tensor& scores);
void moe_gate_backward(const at::Tensor& scores, const at::Tensor& gradient, const at::Tensor& experts,
                       const Gate& gate, at::Tensor& out);
// Experts that have copies: the table's first column is their number, the others are where they are.
struct Replicas {
  int64_t rank = 0, ranks = 1, mode = 0;  // by rank, by token
};
void moe_replicas(const at::Tensor& experts, const at::Tensor& table, const std::optional<at::Tensor>& scales,
                  const std::optional<at::Tensor>& threshold, const std::optional<at::Tensor>& active,
                  const Replicas& options, at::Tensor& out, at::Tensor& mask);

// -- expert_rows.cpp. Pairs of token and expert, sorted by expert; those of experts outside [first, end) are left out.
struct ExpertRows {
  int64_t active = 0, capacity = 0, experts = 0;
  at::IntArrayRef range{};    // [first, end); none: all
  int64_t padded = 0;         // 1: each expert has `capacity` rows, in a tensor of three dimensions
  int64_t forward_rows = 0;   // 1: row numbers say where a pair came from, not where it went
  int64_t quantization = -1;  // -1 none, 0 static, 1 dynamic
  int64_t counts = 1;         // 0 running sums, 1 counts, 2 pairs of expert and count

  int64_t first() const { return range.size() == 2 ? range[0] : 0; }
  int64_t end() const { return range.size() == 2 ? range[1] : experts; }
};
struct ExpertRowsMade {
  at::Tensor &rows, &numbers, &counts, &scales;
  at::Tensor* before_capacity = nullptr;
};
void need_expert_rows(const at::Tensor& x, const std::optional<at::Tensor>& scale, const ExpertRows& options,
                      const ExpertRowsMade& made);
void moe_expert_rows(const at::Tensor& x, const at::Tensor& experts, const std::optional<at::Tensor>& scale,
                     const std::optional<at::Tensor>& offset, const ExpertRows& options, const ExpertRowsMade& made);
// The form without quantization: `flag` is 0 no counts, 1 running sums, 2 counts; without a number of experts all that are named count.
struct PlainExpertRows {
  int64_t active = 0, capacity = 0, experts = 0, padded = 0, flag = 0;
  bool before_capacity = false;
};
void moe_plain_expert_rows(const at::Tensor& x, const at::Tensor& experts, const PlainExpertRows& options,
                           at::Tensor& rows, at::Tensor& numbers, at::Tensor& counts, at::Tensor& before_capacity);
void moe_rows_of_ranks(const at::Tensor& tokens, const at::Tensor& counts, const std::optional<at::Tensor>& scales,
                       bool running, bool scatter, at::Tensor& rows, at::Tensor& row_scales, at::Tensor& numbers,
                       at::Tensor& totals);

// -- expert_kinds.cpp. Ranges [first, end) of experts that are zero, a copy of the token, or alpha1 * token + alpha2 * v.
struct ExpertTerms {
  const std::optional<at::Tensor>&x1, &x2, &bias, &scales, &experts;
};
struct ExpertKinds {
  const std::optional<at::Tensor>&x, &alpha1, &alpha2, &v;
  at::IntArrayRef zero, copy, constant;
};
void moe_sum_kinds(const at::Tensor& expanded, const at::Tensor& rows, const ExpertTerms& terms,
                   const ExpertKinds& kinds, int64_t mode, int64_t k, at::Tensor& out);

// -- routing_map.cpp. The map is [tokens, experts]. `padded`: each expert has as many rows as the others.
void map_permute(const at::Tensor& tokens, const at::Tensor& map, const std::optional<at::Tensor>& probs, bool padded,
                 at::Tensor& rows, at::Tensor& row_probs, at::Tensor& places);
void map_permute_backward(const at::Tensor& gradient, const std::optional<at::Tensor>& prob_gradient,
                          const at::Tensor& places, const std::optional<at::Tensor>& map, bool padded,
                          at::Tensor& grad_tokens, at::Tensor& grad_probs);
void map_unpermute(const at::Tensor& rows, const at::Tensor& places, const std::optional<at::Tensor>& map,
                   const std::optional<at::Tensor>& probs, bool padded, at::Tensor& tokens, at::Tensor& out_index,
                   at::Tensor& token_ids, at::Tensor& row_probs);
void map_unpermute_backward(const at::Tensor& gradient, const at::Tensor& out_index, const at::Tensor& token_ids,
                            const std::optional<at::Tensor>& map, const std::optional<at::Tensor>& rows,
                            const std::optional<at::Tensor>& probs, bool padded, at::Tensor& grad_rows,
                            at::Tensor& grad_probs);

}  // namespace softnpu::ops::kernels
