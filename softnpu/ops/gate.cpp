// Gating of a mixture of experts: which experts a token goes to, and with what weight.
#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "softnpu/ops/expert_rows.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

Tensor normalized(const Tensor& x, int64_t norm) {
  TORCH_CHECK_NOT_IMPLEMENTED(norm >= 0 && norm <= 2, "aclnnMoeGatingTopK: normType ", norm, " is not 0, 1 or 2");
  if (norm == 0) return at::softmax(x, -1);
  return norm == 1 ? at::sigmoid(x) : at::softplus(x).sqrt();
}

// The scores of groups that are not among the best become -inf.
Tensor within_groups(const Tensor& scores, const Gate& gate) {
  if (gate.groups <= 1 || gate.chosen_groups >= gate.groups) return scores;
  TORCH_CHECK(scores.size(-1) % gate.groups == 0, "aclnnMoeGatingTopK: ", scores.size(-1), " experts are not ",
              gate.groups, " groups");
  const Tensor grouped = scores.reshape({-1, gate.groups, scores.size(-1) / gate.groups});
  TORCH_CHECK(gate.group_mode == 0 || grouped.size(-1) >= 2, "aclnnMoeGatingTopK: a group has one expert, not two");
  const Tensor score = gate.group_mode == 0 ? grouped.amax(-1) : std::get<0>(at::topk(grouped, 2, -1)).sum(-1);
  const Tensor best = std::get<1>(at::topk(score, gate.chosen_groups, -1));
  const Tensor hidden = at::ones_like(score, score.options().dtype(at::kBool)).scatter_(-1, best, false);
  return grouped.masked_fill(hidden.unsqueeze(-1), kLowest).reshape(scores.sizes());
}

}  // namespace

void moe_gate(const Tensor& x, const OptionalTensor& bias, const GateTable& table, const Gate& gate, Tensor& y,
              Tensor& experts, Tensor& scores) {
  const Tensor all = normalized(wide(x), gate.norm);
  Tensor chosen;
  if (given(table.ids) && given(table.experts)) {
    chosen = table.experts->to(at::kLong).index_select(0, table.ids->to(at::kLong).flatten());
  } else {
    const Tensor ranked = within_groups(given(bias) ? all + wide(*bias) : all, gate);
    chosen = std::get<1>(at::topk(ranked, gate.k, -1, true, true));
  }
  Tensor weights = all.gather(-1, chosen);
  if (gate.divides()) weights = weights / (weights.sum(-1, true) + gate.eps);
  put(y, weights * gate.factor);
  put(experts, chosen);
  put_if_fits(scores, all);
}

void moe_gate_backward(const Tensor& scores, const Tensor& gradient, const Tensor& experts, const Gate& gate,
                       Tensor& out) {
  const Tensor all = wide(scores), chosen = experts.to(at::kLong), dy = wide(gradient) * gate.factor;
  Tensor back = dy;
  if (gate.divides()) {
    const Tensor weights = all.gather(-1, chosen), sum = weights.sum(-1, true) + gate.eps;
    back = (dy - (weights / sum * dy).sum(-1, true)) / sum;
  }
  const Tensor d = at::zeros_like(all).scatter_add_(-1, chosen, back);
  TORCH_CHECK_NOT_IMPLEMENTED(gate.norm >= 0 && gate.norm <= 2, "aclnnMoeGatingTopKBackward: normType ", gate.norm,
                              " is not 0, 1 or 2");
  if (gate.norm == 0) put(out, all * (d - (all * d).sum(-1, true)));
  if (gate.norm == 1) put(out, all * (1 - all) * d);
  if (gate.norm == 2) put(out, (1 - all.square().neg().exp_()) / (all * 2) * d);  // softplus' is 1 - exp(-softplus)
}

void moe_replicas(const Tensor& experts, const Tensor& table, const OptionalTensor& scales,
                  const OptionalTensor& threshold, const OptionalTensor& active, const Replicas& options, Tensor& out,
                  Tensor& mask) {
  const Tensor ids = experts.to(at::kLong), rows = table.to(at::kLong).index_select(0, ids.flatten());
  const Tensor count = rows.select(1, 0).clamp_min(1);
  Tensor place;
  if (options.mode == 0) {
    const Tensor ranks_each = (count + (options.ranks - 1)).floor_divide(count);
    place = at::full_like(count, options.rank).floor_divide(ranks_each);
  } else {
    place = at::arange(ids.size(0), ids.options()).repeat_interleave(ids.size(1)).remainder(count);
  }
  put(out, rows.gather(1, (place + 1).unsqueeze(1)));
  if (!mask.defined()) return;
  Tensor kept = at::ones_like(ids, ids.options().dtype(at::kBool));
  if (given(scales) && given(threshold)) {
    const Tensor weights = wide(*scales);
    kept = weights.ge(wide(*threshold).reshape({1, -1}) * weights.sum(-1, true));
  }
  put(mask, given(active) ? kept.logical_and(active->to(at::kBool).unsqueeze(1)) : kept);
}

}  // namespace softnpu::ops::kernels
