// See quant_attention.h.
#include "softnpu/ops/quant_attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <functional>

#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {
namespace {

using Maybe = std::optional<Tensor>;

// Rows that have a scale together: of the forward pass each operand its own, of the gradient all the same.
struct Rows {
  int64_t q, k, v;
};
constexpr Rows kForward{128, 256, 512}, kBackward{512, 512, 512};
constexpr int64_t kChunk = 512;  // rows of queries whose weights are in memory

// [B, N, S, D].
Tensor heads_first(const QuantAttention& f, const Tensor& t) { return f.layout == "BSND" ? t.transpose(1, 2) : t; }

void need_scale(const char* name, const Tensor& scale, const Tensor& operand, int64_t rows) {
  const auto blocks = (operand.size(2) + rows - 1) / rows;
  mx::need_sizes(name, scale, {operand.size(0), operand.size(1), blocks, 1});
}

void need_one(const char* name, const Maybe& t) {
  TORCH_CHECK(!given(t) || t->numel() == 1, name, " has ", given(t) ? t->numel() : 0, " numbers, one is expected");
}

void need_operands(const QuantAttention& f, const Rows& rows) {
  TORCH_CHECK(f.layout == "BSND" || f.layout == "BNSD", "inputLayout is ", std::string(f.layout), ", not BSND or BNSD");
  TORCH_CHECK(!given(f.mask), "attenMask is reserved");
  TORCH_CHECK_NOT_IMPLEMENTED(f.sparse == 0, "sparseMode ", f.sparse, " is not implemented; 0 is");
  for (const auto& [name, t] : {std::pair{"query", &f.q}, {"key", &f.k}, {"value", &f.v}}) {
    TORCH_CHECK(t->dim() == 4, name, " has ", t->dim(), " dimensions, four are expected");
  }
  const Tensor q = heads_first(f, f.q), k = heads_first(f, f.k), v = heads_first(f, f.v);
  TORCH_CHECK(q.size(1) == f.heads, "query has ", q.size(1), " heads, headNum is ", f.heads);
  TORCH_CHECK(k.size(1) > 0 && f.heads % k.size(1) == 0 && k.size(2) > 0, "key of ", f.k.sizes(), " for ", f.heads,
              " heads of the query");
  TORCH_CHECK(k.size(0) == q.size(0) && k.size(3) == q.size(3), "key of ", f.k.sizes(), " for a query of ",
              f.q.sizes());
  TORCH_CHECK(v.sizes().slice(0, 3) == k.sizes().slice(0, 3) && v.size(3) <= q.size(3), "value of ", f.v.sizes(),
              " for a key of ", f.k.sizes());
  for (const auto& [name, tokens, all] :
       {std::tuple{"preTokens", f.before, q.size(2)}, {"nextTokens", f.after, k.size(2)}}) {
    TORCH_CHECK_NOT_IMPLEMENTED(tokens >= all, name, " ", tokens, " is not implemented; 2147483647, all keys, is");
  }
  need_scale("dScaleQ", f.q_scale, q, rows.q);
  need_scale("dScaleK", f.k_scale, k, rows.k);
  need_scale("dScaleV", f.v_scale, v, rows.v);
  need_one("pScale", f.p_scale);
}

double number(const Maybe& t) { return given(t) ? t->item().toDouble() : 1; }

// Rounded to the operands' type.
Tensor rounded(const Tensor& value, const Tensor& like) {
  Tensor kept = at::empty(value.sizes(), value.options().dtype(like.scalar_type()));
  put_rounded(kept, value);
  return mx::floats(kept);
}

// One head's rows, times the scales of their blocks.
Tensor rows_of(const Tensor& operand, const Tensor& scale, int64_t batch, int64_t head, int64_t rows) {
  const Tensor values = mx::floats(operand[batch][head].contiguous());
  return values * mx::spread(scale[batch][head], 0, rows, values.size(0));
}

// Calls body(batch, head of the query, head of the key).
void each_head(const Tensor& q, const Tensor& k, const std::function<void(int64_t, int64_t, int64_t)>& body) {
  const int64_t group = q.size(1) / k.size(1);
  for (int64_t b = 0; b < q.size(0); b++) {
    for (int64_t n = 0; n < q.size(1); n++) body(b, n, n / group);
  }
}

// Calls body(first row, rows).
void each_chunk(int64_t rows, const std::function<void(int64_t, int64_t)>& body) {
  for (int64_t from = 0; from < rows; from += kChunk) body(from, std::min(kChunk, rows - from));
}

}  // namespace

void need_quant_attention(const QuantAttention& f, const Tensor& largest, const Tensor& total, const Tensor& out) {
  need_operands(f, kForward);
  const Tensor q = heads_first(f, f.q);
  const std::vector<int64_t> statistic{q.size(0), q.size(1), q.size(2), 1};
  mx::need_sizes("softmaxMaxOut", largest, statistic);
  mx::need_sizes("softmaxSumOut", total, statistic);
  std::vector<int64_t> sizes = f.q.sizes().vec();
  sizes[3] = f.v.size(3);
  mx::need_sizes("attentionOutOut", out, sizes);
}

void quant_attention(const QuantAttention& f, Tensor& largest, Tensor& total, Tensor& out) {
  if (largest.numel() == 0) return;  // a value may have no columns
  const Tensor q = heads_first(f, f.q), k = heads_first(f, f.k), v = heads_first(f, f.v), y = heads_first(f, out);
  const double factor = number(f.p_scale);
  each_head(q, k, [&](int64_t b, int64_t n, int64_t of) {
    const Tensor queries = rows_of(q, f.q_scale, b, n, kForward.q), keys = rows_of(k, f.k_scale, b, of, kForward.k);
    const Tensor values = rows_of(v, f.v_scale, b, of, kForward.v);
    each_chunk(queries.size(0), [&](int64_t from, int64_t rows) {
      const auto part = [&](const Tensor& t) { return t[b][n].narrow(0, from, rows); };
      const Tensor products = at::matmul(queries.narrow(0, from, rows), keys.t()) * f.scale;
      const Tensor top = products.amax(1, true), weights = (products - top).exp_(), sum = weights.sum(1, true);
      part(largest).copy_(top);
      part(total).copy_(sum);
      Tensor place = part(y);
      put(place, at::matmul(rounded(weights / sum * factor, f.q), values) / factor);
    });
  });
}

void need_quant_attention_backward(const QuantAttention& f, const QuantAttentionSaved& saved, int64_t type,
                                   const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  need_operands(f, kBackward);
  const Tensor q = heads_first(f, f.q);
  TORCH_CHECK(heads_first(f, f.k).size(1) == f.heads, "key of ", f.k.sizes(), " has not as many heads as the query, ",
              f.heads);
  std::vector<int64_t> sizes = f.q.sizes().vec();
  sizes[3] = f.v.size(3);
  mx::need_sizes("dy", saved.dy, sizes);
  mx::need_sizes("attentionIn", saved.out, sizes);
  TORCH_CHECK(saved.dy.scalar_type() == f.q.scalar_type(), "dy is of ", saved.dy.scalar_type(), ", query of ",
              f.q.scalar_type());
  need_scale("dScaleDy", saved.dy_scale, q, kBackward.q);
  need_one("dsScale", saved.ds_scale);
  const std::vector<int64_t> statistic{q.size(0), q.size(1), q.size(2), 1};
  mx::need_sizes("softmaxMax", saved.largest, statistic);
  mx::need_sizes("softmaxSum", saved.total, statistic);
  for (const auto& [name, t, of] : {std::tuple{"dqOut", &dq, &f.q}, {"dkOut", &dk, &f.k}, {"dvOut", &dv, &f.v}}) {
    mx::need_sizes(name, *t, of->sizes());
    TORCH_CHECK(t->scalar_type() == (type == 0 ? at::kHalf : at::kBFloat16), name, " is of ", t->scalar_type(),
                ", outDtype is ", type, "; 0 is float16 and 1 bfloat16");
  }
}

void quant_attention_backward(const QuantAttention& f, const QuantAttentionSaved& saved, Tensor& dq, Tensor& dk,
                              Tensor& dv) {
  if (f.q.numel() == 0) return dk.zero_(), void(dv.zero_());
  const auto first = [&](const Tensor& t) { return heads_first(f, t); };
  const Tensor q = first(f.q), k = first(f.k), v = first(f.v), dy = first(saved.dy), y = first(saved.out);
  const double p_factor = number(f.p_scale), ds_factor = number(saved.ds_scale);
  each_head(q, k, [&](int64_t b, int64_t n, int64_t) {
    const Tensor queries = rows_of(q, f.q_scale, b, n, kBackward.q), keys = rows_of(k, f.k_scale, b, n, kBackward.k);
    const Tensor values = rows_of(v, f.v_scale, b, n, kBackward.v),
                 slopes = rows_of(dy, saved.dy_scale, b, n, kBackward.q);
    Tensor to_keys = at::zeros(keys.sizes(), keys.options()), to_values = at::zeros(values.sizes(), values.options());
    each_chunk(queries.size(0), [&](int64_t from, int64_t rows) {
      const auto part = [&](const Tensor& t) { return t[b][n].narrow(0, from, rows); };
      const Tensor some = queries.narrow(0, from, rows), slope = slopes.narrow(0, from, rows);
      const Tensor weights = (at::matmul(some, keys.t()) * f.scale - part(saved.largest)).exp_() / part(saved.total);
      const Tensor along = (slope * part(y).to(at::kFloat)).sum(1, true);
      const Tensor ds =
          rounded((at::matmul(slope, values.t()) - along) * weights * ds_factor, f.q) * (f.scale / ds_factor);
      to_values.add_(at::matmul(rounded(weights * p_factor, f.q).t(), slope) / p_factor);
      to_keys.add_(at::matmul(ds.t(), some));
      Tensor place = part(first(dq));
      put(place, at::matmul(ds, keys));
    });
    Tensor place_keys = first(dk)[b][n], place_values = first(dv)[b][n];
    put(place_keys, to_keys);
    put(place_values, to_values);
  });
}

}  // namespace softnpu::ops::kernels
