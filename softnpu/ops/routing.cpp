// Mixture of experts on one device: choosing experts, sorting rows by expert and bringing them back. Sums are fp32.
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

Tensor sorted_order(const Tensor& t) { return at::argsort(t.flatten(), /*stable=*/true, 0, false); }

// Rows of `t` by number. Zero, as of pairs that were dropped, is -1, and what lies past the end of `t` but names one of `pairs`, of which `t`
// has not all. Other numbers name nothing.
Tensor rows_or_zero(const Tensor& t, const Tensor& rows, int64_t pairs) {
  const Tensor widened = wide(t), at = rows.to(at::kLong);
  const int64_t end = std::max(widened.size(0), pairs);
  const Tensor wrong = at.masked_select(at.lt(-1).logical_or_(at.ge(end)));
  TORCH_CHECK_INDEX(wrong.numel() == 0, "row ", wrong.numel() ? wrong[0].item<int64_t>() : 0, " is out of bounds for ",
                    end, " rows; -1 is a row of zeros");
  if (widened.size(0) == 0) return at::zeros({at.numel(), widened.size(1)}, widened.options());
  const Tensor kept = at.ge(0).logical_and_(at.lt(widened.size(0)));
  return widened.index_select(0, at::where(kept, at, 0)).mul_(kept.unsqueeze(1));
}

}  // namespace

void moe_gating_softmax(const Tensor& x, const OptionalTensor& finished, int64_t k, bool renormalize, Tensor& y,
                        Tensor& experts, Tensor& softmax) {
  const Tensor widened = wide(x), all = at::softmax(widened, -1);
  auto [values, chosen] = at::topk(renormalize ? widened : all, k, -1, true, true);
  put(y, renormalize ? at::softmax(values, -1) : values);
  if (passed(finished)) chosen = at::where(finished->to(at::kBool).unsqueeze(-1), x.size(-1), chosen);
  put(experts, chosen);
  if (softmax.defined()) put_if_fits(softmax, all);
}

void moe_row_numbers(Tensor& rows) {
  put(rows, at::arange(rows.numel(), rows.options()).reshape({rows.size(-1), -1}).t().reshape(rows.sizes()));
}

void moe_init_routing(const Tensor& x, const Tensor& rows, const Tensor& experts, Tensor& expanded,
                      Tensor& expanded_rows, Tensor& expanded_experts) {
  const Tensor order = sorted_order(experts), sorted = rows.flatten().index_select(0, order).to(at::kLong);
  put(expanded_experts, experts.flatten().index_select(0, order));
  const int64_t count = sorted.numel();
  TORCH_CHECK(count == 0 || (sorted.min().item<int64_t>() >= 0 && sorted.max().item<int64_t>() < count),
              "rowIdx must be numbers from 0 to ", count - 1);
  Tensor back = at::full_like(sorted, -1);
  back.index_put_({sorted}, at::arange(count, sorted.options()));
  TORCH_CHECK(back.ge(0).all().item<bool>(), "rowIdx must name each row once");
  put(expanded_rows, back);
  put(expanded, x.index_select(0, sorted.remainder(x.size(0)).narrow(0, 0, expanded.size(0))));
}

void moe_finalize_routing(const Tensor& expanded, const Tensor& rows, const OptionalTensor& x1,
                          const OptionalTensor& x2, const OptionalTensor& bias, const OptionalTensor& scales,
                          const OptionalTensor& experts, int64_t mode, Tensor& out) {
  TORCH_CHECK(mode >= 0 && mode <= 3, "aclnnMoeFinalizeRouting: the mode ", mode, " is not 0 to 3");
  const int64_t count = out.size(0), k = count ? rows.numel() / count : 0;
  Tensor sum = at::zeros(out.sizes(), out.options().dtype(out.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  for (const OptionalTensor* skip : {&x1, &x2}) {
    if (passed(*skip)) sum.add_(wide(**skip));
  }
  const Tensor flat = expanded.reshape({-1, out.size(1)});
  const int64_t pairs = mode % 2 == 0 ? rows.numel() : 0;  // 1 and 3 have places for all, of which some are empty
  const Tensor by_column = mode < 2 ? rows.reshape({k, count}) : rows.reshape({count, k}).t();
  for (int64_t i = 0; i < k; i++) {
    Tensor part = rows_or_zero(flat, by_column[i], pairs);
    if (passed(bias)) {
      TORCH_CHECK(passed(experts), "aclnnMoeFinalizeRouting: a bias needs the experts of each row");
      part.add_(wide(*bias).index_select(0, experts->select(1, i).to(at::kLong)));
    }
    if (passed(scales)) part.mul_(wide(*scales).select(1, i).unsqueeze(1));
    sum.add_(part);
  }
  put(out, sum);
}

// The number after the last is what a gate gives a finished row.
void moe_expert_ends(const Tensor& sorted, int64_t experts, Tensor& out) {
  if (const int64_t n = sorted.numel(); n > 0) {
    TORCH_CHECK_INDEX(n == 1 || sorted.diff().ge(0).all().item<bool>(),
                      "sortedExperts is not in order: sort the experts' numbers first");
    const int64_t first = sorted[0].item<int64_t>(), last = sorted[n - 1].item<int64_t>();
    TORCH_CHECK_INDEX(first >= 0 && last <= experts, "expert ", first < 0 ? first : last, " is out of bounds for ",
                      experts, " experts");
  }
  put(out, at::searchsorted(sorted.contiguous(), at::arange(experts, sorted.options()), false, /*right=*/true));
}

void moe_permute(const Tensor& tokens, const Tensor& indices, Tensor& permuted, Tensor& places) {
  const Tensor order = sorted_order(indices);
  put(places, at::argsort(order, true, 0, false));
  const int64_t top_k = indices.dim() > 1 ? indices.size(1) : 1;
  const Tensor sources = order.narrow(0, 0, permuted.size(0)).floor_divide(top_k);
  put(permuted, tokens.index_select(0, sources));
}

void moe_permute_backward(const Tensor& gradient, const Tensor& places, int64_t top_k, Tensor& out) {
  put(out, rows_or_zero(gradient, places, places.numel()).reshape({out.size(0), top_k, out.size(1)}).sum(1));
}

void moe_unpermute(const Tensor& permuted, const Tensor& places, const OptionalTensor& probs, Tensor& out) {
  Tensor rows = rows_or_zero(permuted, places, places.numel());
  if (passed(probs)) rows.mul_(wide(*probs).reshape({-1, 1}));
  const int64_t count = out.size(0);
  put(out, rows.reshape({count, count ? places.numel() / count : 1, out.size(1)}).sum(1));
}

void moe_unpermute_backward(const OptionalTensor& permuted, const Tensor& gradient, const Tensor& places,
                            const OptionalTensor& probs, Tensor& grad_permuted, Tensor& grad_probs) {
  const int64_t count = gradient.size(0), k = count ? places.numel() / count : 1;
  const Tensor dy = wide(gradient).repeat_interleave(k, 0), at = places.to(at::kLong);
  if (passed(probs) && grad_probs.defined()) {
    TORCH_CHECK(passed(permuted), "aclnnMoeTokenUnpermuteGrad: the gradient of probs needs the permuted tokens");
    put(grad_probs, (dy * rows_or_zero(*permuted, at, at.numel())).sum(1).reshape(grad_probs.sizes()));
  }
  const Tensor weighted = passed(probs) ? dy * wide(*probs).reshape({-1, 1}) : dy;
  const int64_t end = std::max(grad_permuted.size(0), at.numel());
  TORCH_CHECK_INDEX(at.numel() == 0 || (at.min().item<int64_t>() >= -1 && at.max().item<int64_t>() < end),
                    "places must be numbers from -1 to ", end - 1);
  const Tensor kept = at.ge(0).logical_and_(at.lt(grad_permuted.size(0))).nonzero().squeeze(1);
  Tensor rows = at::zeros(grad_permuted.sizes(), dy.options());
  rows.index_put_({at.index_select(0, kept)}, weighted.index_select(0, kept));
  put(grad_permuted, rows);
}

}  // namespace softnpu::ops::kernels
