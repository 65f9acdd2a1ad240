// Rows sorted by expert, where a map of tokens and experts says who goes where (Megatron's form). Sums are fp32.
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/expert_rows.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

// Token of each pair, token after token.
Tensor token_of_pairs(const OptionalTensor& map, int64_t pairs, int64_t tokens) {
  if (given(map)) return map->to(at::kBool).nonzero().select(1, 0);
  TORCH_CHECK(tokens > 0 && pairs % tokens == 0, "aclnnMoeTokenPermuteWithRoutingMap: ", pairs, " rows of ", tokens,
              " tokens need a routing map");
  return at::arange(tokens).repeat_interleave(pairs / tokens);
}
Tensor long_flat(const Tensor& t) { return t.flatten().to(at::kLong); }
// The pairs that have a row: a negative place means none.
Tensor present(const Tensor& at, const Tensor& token) {
  TORCH_CHECK(at.numel() == token.numel(), "aclnnMoeTokenPermuteWithRoutingMap: ", at.numel(), " indices for ",
              token.numel(), " pairs of the routing map");
  return at.ge(0).nonzero().squeeze(1);
}
// [experts] that padded rows belong to: the same number of rows each.
Tensor expert_of_rows(int64_t rows, int64_t experts) {
  TORCH_CHECK(experts > 0 && rows % experts == 0, "aclnnMoeTokenPermuteWithRoutingMap: ", rows, " rows of ", experts,
              " experts");
  return at::arange(experts).repeat_interleave(rows / experts);
}
Tensor summed(const Tensor& rows, const Tensor& tokens, const Tensor& like) {
  return at::zeros(like.sizes(), rows.options()).index_add_(0, tokens, rows);
}

}  // namespace

void map_permute(const Tensor& tokens, const Tensor& map, const OptionalTensor& probs, bool padded, Tensor& rows,
                 Tensor& row_probs, Tensor& places) {
  const Tensor by_expert = map.to(at::kBool).t();
  if (padded) {
    const int64_t capacity = map.size(1) ? places.numel() / map.size(1) : 0;
    const Tensor first = at::argsort(by_expert.to(at::kChar), /*stable=*/true, 1, /*descending=*/true);
    const Tensor chosen = first.narrow(1, 0, capacity);
    put(places, chosen.flatten());
    put(rows, tokens.index_select(0, chosen.flatten()));
    if (given(probs) && row_probs.defined()) put(row_probs, probs->t().gather(1, chosen).flatten());
    return;
  }
  const Tensor source = by_expert.nonzero().select(1, 1);
  TORCH_CHECK(source.numel() == rows.size(0), "aclnnMoeTokenPermuteWithRoutingMap: the routing map has ",
              source.numel(), " ones, but there is room for ", rows.size(0),
              " rows: num_out_tokens must be the number of ones, as many for each token");
  put(places, at::argsort(source, /*stable=*/true, 0, false));
  put(rows, tokens.index_select(0, source));
  if (given(probs) && row_probs.defined()) put(row_probs, probs->t().masked_select(by_expert));
}

void map_permute_backward(const Tensor& gradient, const OptionalTensor& prob_gradient, const Tensor& places,
                          const OptionalTensor& map, bool padded, Tensor& grad_tokens, Tensor& grad_probs) {
  const Tensor at = long_flat(places), dy = wide(gradient);
  if (padded) {
    put(grad_tokens, summed(dy, at, grad_tokens));
    if (!given(prob_gradient) || !grad_probs.defined()) return;
    Tensor d = at::zeros(grad_probs.sizes(), wide(*prob_gradient).options());
    d.index_put_({at, expert_of_rows(at.numel(), d.size(1))}, wide(*prob_gradient).flatten(), /*accumulate=*/true);
    return put(grad_probs, d);
  }
  const Tensor token = token_of_pairs(map, at.numel(), grad_tokens.size(0)), kept = present(at, token);
  put(grad_tokens, summed(dy.index_select(0, at.index_select(0, kept)), token.index_select(0, kept), grad_tokens));
  if (!given(prob_gradient) || !grad_probs.defined()) return;
  TORCH_CHECK(given(map), "aclnnMoeTokenPermuteWithRoutingMapGrad: the gradient of probs needs the routing map");
  const Tensor by_expert = map->to(at::kBool).t().contiguous(), values = wide(*prob_gradient).contiguous();
  put(grad_probs, at::zeros(by_expert.sizes(), values.options()).masked_scatter_(by_expert, values).t());
}

void map_unpermute(const Tensor& rows, const Tensor& places, const OptionalTensor& map, const OptionalTensor& probs,
                   bool padded, Tensor& tokens, Tensor& out_index, Tensor& token_ids, Tensor& row_probs) {
  const Tensor at = long_flat(places);
  Tensor value = wide(rows);
  if (padded) {
    if (given(probs)) {
      const Tensor weight = wide(*probs).index({at, expert_of_rows(at.numel(), probs->size(1))});
      value = value * weight.unsqueeze(1);
      put_if_fits(row_probs, weight);
    }
    put(tokens, summed(value, at, tokens));
    const auto [ids, order] = at::sort(at, /*stable=*/true, 0, false);
    put_if_fits(token_ids, ids);
    put_if_fits(out_index, order);
    return;
  }
  const Tensor token = token_of_pairs(map, at.numel(), tokens.size(0)), kept = present(at, token);
  value = value.index_select(0, at.index_select(0, kept));
  if (given(probs)) {
    TORCH_CHECK(given(map), "aclnnMoeTokenUnpermuteWithRoutingMap: probs need the routing map");
    const Tensor p = wide(*probs), mask = map->to(at::kBool);
    value = value * p.masked_select(mask).index_select(0, kept).unsqueeze(1);
    put_if_fits(row_probs, p.t().masked_select(mask.t()));  // expert after expert, as the rows are
  }
  put(tokens, summed(value, token.index_select(0, kept), tokens));
  put_if_fits(out_index, at);
  put_if_fits(token_ids, token);
}

void map_unpermute_backward(const Tensor& gradient, const Tensor& out_index, const Tensor& token_ids,
                            const OptionalTensor& map, const OptionalTensor& rows, const OptionalTensor& probs,
                            bool padded, Tensor& grad_rows, Tensor& grad_probs) {
  const Tensor at = long_flat(out_index);
  const Tensor token = padded ? long_flat(token_ids) : token_of_pairs(map, at.numel(), gradient.size(0));
  const Tensor kept = present(at, token), row = at.index_select(0, kept), owner = token.index_select(0, kept);
  Tensor dy = wide(gradient).index_select(0, owner);
  if (given(probs)) {
    const Tensor p = wide(*probs);
    TORCH_CHECK(given(rows) && (padded || given(map)),
                "aclnnMoeTokenUnpermuteWithRoutingMapGrad: probs need the permuted tokens and the routing map");
    const Tensor score = (dy * wide(*rows).index_select(0, row)).sum(1);
    if (padded) {
      const Tensor expert = expert_of_rows(at.numel(), p.size(1)).index_select(0, row);
      dy = dy * p.index({owner, expert}).unsqueeze(1);
      if (grad_probs.defined()) {
        put(grad_probs, at::zeros(p.sizes(), p.options()).index_put_({owner, expert}, score, /*accumulate=*/true));
      }
    } else {
      const Tensor mask = map->to(at::kBool).contiguous();
      dy = dy * p.masked_select(mask).index_select(0, kept).unsqueeze(1);
      const Tensor of_pairs = at::zeros({at.numel()}, score.options()).index_copy_(0, kept, score);
      if (grad_probs.defined()) put(grad_probs, at::zeros(p.sizes(), p.options()).masked_scatter_(mask, of_pairs));
    }
  }
  put(grad_rows, at::zeros(grad_rows.sizes(), dy.options()).index_put_({row}, dy));
}

}  // namespace softnpu::ops::kernels
