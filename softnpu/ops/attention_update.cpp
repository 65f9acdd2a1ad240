// See infer_attention.h: results of parts of the keys become those of all keys.
#include <ATen/ops/cat.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "softnpu/ops/fused_quant.h"
#include "softnpu/ops/infer_attention.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

}  // namespace

void attention_update(at::TensorList lse, at::TensorList parts, Tensor& out, Tensor& lse_out) {
  TORCH_CHECK(!parts.empty() && lse.size() == parts.size(), "aclnnAttentionUpdate: ", parts.size(), " results, ",
              lse.size(), " logarithms");
  std::vector<Tensor> logs;
  for (const Tensor& t : lse) logs.push_back(t.to(at::kFloat).flatten());
  const Tensor given_logs = at::stack(logs, 0);
  // Attention says inf of a row that sees nothing in its part: such a part adds nothing.
  const Tensor all = given_logs.masked_fill(at::isinf(given_logs), kNone), high = std::get<0>(all.max(0));
  const Tensor unseen = high.eq(kNone), top = high.masked_fill(unseen, 0);
  const Tensor total = top + (all - top).exp().sum(0).log();
  Tensor sum = at::zeros(out.sizes(), out.options().dtype(at::kFloat));
  for (size_t i = 0; i < parts.size(); i++) {
    const Tensor weight = (all[i] - total.masked_fill(unseen, 0)).exp().reshape({-1, 1});
    TORCH_CHECK(parts[i].sizes() == out.sizes() && weight.size(0) * out.size(-1) == out.numel(),
                "aclnnAttentionUpdate: a result of ", parts[i].sizes(), " where ", out.sizes(), " is expected, with ",
                weight.size(0), " logarithms");
    sum.add_((parts[i].to(at::kFloat) * weight).masked_fill_(weight.eq(0), 0));
  }
  put(out, sum);
  if (lse_out.defined()) put_if_fits(lse_out, total.masked_fill(unseen, std::numeric_limits<double>::infinity()));
}

void ring_attention_update(const RingPart& first, const RingPart& second, const Maybe& ends, std::string_view layout,
                           std::string_view softmax_layout, Tensor& out, Tensor& max_out, Tensor& sum_out) {
  const Tensor &before = first.out, &now = second.out;
  const Tensor m0 = wide(first.max), m1 = wide(second.max), high = m0.maximum(m1);
  const Tensor s0 = wide(first.sum) * (m0 - high).exp(), s1 = wide(second.sum) * (m1 - high).exp(), sum = s0 + s1;
  put(max_out, high);
  put(sum_out, sum);
  Tensor w0 = (s0 / sum).select(-1, 0), w1 = (s1 / sum).select(-1, 0);
  if (layout == "SBH") {  // [batch, heads, rows] beside rows of [rows, batch, heads * columns]
    const auto beside = [&](const Tensor& w) {
      const Tensor rows = w.permute({2, 0, 1}).unsqueeze(-1);
      return rows.expand({rows.size(0), rows.size(1), rows.size(2), now.size(2) / rows.size(2)}).flatten(2);
    };
    put(out, wide(before) * beside(w0) + wide(now) * beside(w1));
    return;
  }
  TORCH_CHECK(layout == "TND", "aclnnRingAttentionUpdate: the layout ", std::string(layout), " is not SBH or TND");
  if (softmax_layout != "TND" && given(ends)) {  // each sequence's statistics lie head by head
    const Tensor at = ends->flatten().to(at::kLong);
    const int64_t heads = now.size(1);
    const auto by_rows = [&](const Tensor& w) {
      std::vector<Tensor> parts;
      const Tensor flat = w.flatten();
      for (int64_t i = 0; i + 1 < at.numel(); i++) {
        const int64_t from = at[i].item<int64_t>(), to = at[i + 1].item<int64_t>();
        parts.push_back(flat.narrow(0, from * heads, (to - from) * heads).reshape({heads, to - from}).t());
      }
      return at::cat(parts, 0);
    };
    w0 = by_rows(w0);
    w1 = by_rows(w1);
  }
  put(out, wide(before) * w0.unsqueeze(-1) + wide(now) * w1.unsqueeze(-1));
}

}  // namespace softnpu::ops::kernels
