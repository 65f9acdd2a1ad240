// See block_attention.h.
#include "softnpu/ops/block_attention.h"

#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"
#include "softnpu/ops/sparse_rows.h"

namespace softnpu::ops::kernels {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

bool packed(const BlockHeads& of) { return of.layout == "TND"; }

int64_t blocks(int64_t n, int64_t size) { return (n + size - 1) / size; }

// One sequence of a batch: its rows of queries and of keys, and the part of the mask.
struct Sequence {
  int64_t index, row, rows, key, keys;
};
std::vector<Sequence> sequences(const BlockHeads& of) {
  std::vector<Sequence> found;
  const bool tnd = packed(of);
  int64_t row = 0, key = 0;
  const auto batch = static_cast<int64_t>(of.lengths.empty() ? of.query.size(0) : of.lengths.size());
  for (int64_t i = 0; i < batch; i++) {
    const int64_t rows = of.lengths.empty() ? of.query.size(2) : of.lengths[i];
    const int64_t keys = of.key_lengths.empty() ? of.key.size(2) : of.key_lengths[i];
    found.push_back({i, row, rows, key, keys});
    if (tnd) row += rows, key += keys;
  }
  return found;
}

// A sequence's part of a tensor as [1, rows, heads, columns].
Tensor part(const BlockHeads& of, const Tensor& t, int64_t index, int64_t from, int64_t count) {
  if (packed(of)) return t.narrow(0, from, count).unsqueeze(0);
  return t.narrow(0, index, 1).narrow(2, 0, count).transpose(1, 2);
}

// The logarithm of which keys are open, [1, heads, rows, keys].
Tensor bias_of(const BlockHeads& of, const Sequence& s) {
  const int64_t heads = of.query.size(1);
  if (!given(of.open)) return at::zeros({1, heads, s.rows, s.keys}, at::kFloat);
  const Tensor each =
      of.open->narrow(0, s.index, 1).ne(0).repeat_interleave(of.block[0], 2).repeat_interleave(of.block[1], 3);
  return at::log(each.narrow(2, 0, s.rows).narrow(3, 0, s.keys).to(at::kFloat));
}

void check_operands(const BlockHeads& of) {
  need_word("qInputLayout", of.layout, {"TND", "BNSD"});
  TORCH_CHECK(of.key_layout == of.layout, "kvInputLayout is qInputLayout, ", of.layout, ", not ", of.key_layout);
  need_absent("attenMask", of.mask);
  need_number("maskType", of.mask_type, {0});
  const bool tnd = packed(of);
  need_dims("query", of.query, {tnd ? 3 : 4});
  need_dims("key", of.key, {tnd ? 3 : 4});
  need_heads(of.query, of.key, 1);
  need_sizes("value", of.value, of.key.sizes());
  TORCH_CHECK(of.key.size(1) == of.key_heads, "numKeyValueHeads is ", of.key_heads, ", key has ", of.key.size(1),
              " heads");
  TORCH_CHECK(of.lengths.empty() == of.key_lengths.empty(), "actualSeqLengths and actualSeqLengthsKv go together");
  TORCH_CHECK(!tnd || !of.lengths.empty(), "actualSeqLengths is needed with TND");
  if (!tnd) need_sizes("key", of.key, {of.query.size(0), -1, -1, -1});
  TORCH_CHECK(of.lengths.size() == of.key_lengths.size() &&
                  (tnd || of.lengths.empty() || static_cast<int64_t>(of.lengths.size()) == of.query.size(0)),
              of.lengths.size(), " lengths of queries and ", of.key_lengths.size(), " of keys");
  int64_t all = 0, all_keys = 0, rows = tnd ? 0 : of.query.size(2), keys = tnd ? 0 : of.key.size(2);
  for (const Sequence& s : sequences(of)) {
    TORCH_CHECK(s.rows >= 0 && s.keys >= 0 && (tnd || (s.rows <= rows && s.keys <= keys)), "sequence ", s.index,
                " has lengths ", s.rows, " and ", s.keys, ", outside its rows");
    all += s.rows;
    all_keys += s.keys;
    if (tnd) rows = std::max(rows, s.rows), keys = std::max(keys, s.keys);
  }
  TORCH_CHECK(!tnd || (all == of.query.size(0) && all_keys == of.key.size(0)), "lengths sum to ", all, " and ",
              all_keys, ", rows are ", of.query.size(0), " and ", of.key.size(0));
  if (!given(of.open)) return;
  TORCH_CHECK(of.block.size() >= 2 && of.block[0] > 0 && of.block[1] > 0, "blockShape is two positive numbers, not ",
              of.block);
  const auto batch = static_cast<int64_t>(tnd ? of.lengths.size() : of.query.size(0));
  need_sizes("blockSparseMask", of.open,
             {batch, of.query.size(1), blocks(rows, of.block[0]), blocks(keys, of.block[1])});
}

std::vector<int64_t> sizes_of_sums(const BlockHeads& of) {
  std::vector<int64_t> sizes = of.query.sizes().vec();
  sizes.back() = 1;
  return sizes;
}

void check_set_operands(const TwoSets& of) {
  need_dims("query", of.query, {5});
  const IntArrayRef q = of.query.sizes();
  need_sizes("key1", of.key1, {q[0], q[1], q[2], -1, q[4]});
  need_sizes("value1", of.value1, of.key1.sizes());
  need_sizes("key2", of.key2, {q[0], q[1], of.key1.size(3), q[3], q[4]});
  need_sizes("value2", of.value2, of.key2.sizes());
  need_sizes("attenMask", of.mask, {q[0], 1, q[2], 1, of.key1.size(3)});
}

std::vector<int64_t> eights(const TwoSets& of) {
  std::vector<int64_t> sizes = of.query.sizes().vec();
  sizes.back() = 8;
  return sizes;
}

// Products of both sets of keys, [b, h, n, m, k].
Tensor set_scores(const TwoSets& of) {
  const Tensor q = wide(of.query), first = at::matmul(q, wide(of.key1).transpose(-2, -1));
  // The other keys belong to a column m of queries: [b, h, m, n, d] @ [b, h, m, d, k].
  const Tensor second = at::matmul(q.transpose(2, 3), wide(of.key2).permute({0, 1, 3, 4, 2})).transpose(2, 3);
  const Tensor scores = (first + second) * of.scale;
  return given(of.mask) ? scores.masked_fill(of.mask->ne(0), kMasked) : scores;
}
Tensor set_weights(const Tensor& scores, const Tensor& largest, const Tensor& sum) {
  const Tensor top = largest.to(scores.scalar_type()), total = sum.to(scores.scalar_type());
  return at::exp(scores - at::where(top.isinf(), 0, top)) / at::where(total.eq(0), 1, total);
}

}  // namespace

void check_block_attention(const BlockHeads& of, const BlockPages& pages, int64_t precise, int64_t with_sums,
                           const Tensor& out, const Tensor& sums) {
  need_absent("blockTable", pages.table);
  need_number("innerPrecise", precise, {0, 1, 4});
  need_number("softmaxLseFlag", with_sums, {0, 1});
  check_operands(of);
  need_sizes("attentionOut", out, of.query.sizes());
  if (with_sums) need_sizes("softmaxLse", sums, sizes_of_sums(of));
}

void block_attention(const BlockHeads& of, Tensor& out, Tensor& sums) {
  out.zero_();
  const bool wanted = sums.defined() && sums.numel() > 0;
  if (wanted) sums.zero_();
  for (const Sequence& s : sequences(of)) {
    const Attended a = attended(part(of, of.query, s.index, s.row, s.rows), part(of, of.key, s.index, s.key, s.keys),
                                part(of, of.value, s.index, s.key, s.keys), of.scale, bias_of(of, s));
    part(of, out, s.index, s.row, s.rows).copy_(a.out);
    if (!wanted) continue;
    const Tensor lse = (a.largest + at::log(a.sum)).transpose(1, 2).unsqueeze(-1);
    part(of, sums, s.index, s.row, s.rows).copy_(lse);
  }
}

void check_block_attention_backward(const BlockHeads& of, const Tensor& grad, const Tensor& sums,
                                    const BlockGradients& made) {
  check_operands(of);
  need_sizes("dout", grad, of.query.sizes());
  need_result("softmaxLse", sums, sizes_of_sums(of));
  need_sizes("dq", made.query, of.query.sizes());
  need_sizes("dk", made.key, of.key.sizes());
  need_sizes("dv", made.value, of.value.sizes());
}

void block_attention_backward(const BlockHeads& of, const Tensor& grad, const Tensor& sums,
                              const BlockGradients& made) {
  for (Tensor* t : {&made.query, &made.key, &made.value}) t->zero_();
  for (const Sequence& s : sequences(of)) {
    const auto rows = [&](const Tensor& t) { return part(of, t, s.index, s.row, s.rows); };
    const auto keys = [&](const Tensor& t) { return part(of, t, s.index, s.key, s.keys); };
    const Tensor query = rows(of.query), key = keys(of.key), value = keys(of.value), bias = bias_of(of, s);
    Tensor weights;
    if (sums.numel() > 0) {
      const Tensor lse = wide(rows(sums)).squeeze(-1).transpose(1, 2);
      weights = weights_of(query, key, of.scale, bias, lse, at::ones(lse.sizes(), lse.options()));
    } else {
      weights = attended(query, key, value, of.scale, bias).weights;
    }
    const AttendedGradients d = attended_backward(rows(grad), query, key, value, of.scale, weights);
    rows(made.query).copy_(d.query);
    keys(made.key).copy_(d.key);
    keys(made.value).copy_(d.value);
  }
}

void check_two_sets(const TwoSets& of, const Tensor& largest, const Tensor& sum, const Tensor& out) {
  check_set_operands(of);
  need_sizes("softmaxMax", largest, eights(of));
  need_sizes("softmaxSum", sum, eights(of));
  need_sizes("attentionOut", out, of.query.sizes());
}

void two_sets(const TwoSets& of, Tensor& out_largest, Tensor& out_sum, Tensor& out) {
  const Tensor scores = set_scores(of), largest = scores.amax(-1, true);
  const Tensor sum = at::exp(scores - at::where(largest.isinf(), 0, largest)).sum(-1, true);
  const Tensor p = set_weights(scores, largest, sum);
  const Tensor second = at::matmul(p.transpose(2, 3), wide(of.value2).transpose(2, 3)).transpose(2, 3);
  put(out, at::matmul(p, wide(of.value1)) + second);
  put(out_largest, largest.expand({-1, -1, -1, -1, 8}));
  put(out_sum, sum.expand({-1, -1, -1, -1, 8}));
}

void check_two_sets_backward(const TwoSets& of, const Tensor& grad, const Tensor& largest, const Tensor& sum,
                             const TwoSetGradients& made) {
  check_set_operands(of);
  need_sizes("dy", grad, of.query.sizes());
  need_sizes("softmaxMax", largest, eights(of));
  need_sizes("softmaxSum", sum, eights(of));
  need_sizes("dq", made.query, of.query.sizes());
  need_sizes("dk1", made.key1, of.key1.sizes());
  need_sizes("dv1", made.value1, of.value1.sizes());
  need_sizes("dk2", made.key2, of.key2.sizes());
  need_sizes("dv2", made.value2, of.value2.sizes());
}

void two_sets_backward(const TwoSets& of, const Tensor& grad, const Tensor& largest, const Tensor& sum,
                       const TwoSetGradients& made) {
  const Tensor d = wide(grad), q = wide(of.query), k1 = wide(of.key1), k2 = wide(of.key2).transpose(2, 3);
  const Tensor v1 = wide(of.value1), v2 = wide(of.value2).transpose(2, 3);  // of the others [b, h, m, k, d]
  const auto turned = [](const Tensor& t) { return t.transpose(2, 3); };
  const Tensor p =
      set_weights(set_scores(of), wide(largest).narrow(-1, 0, 1), wide(sum).narrow(-1, 0, 1));  // [b, h, n, m, k]
  const Tensor of_p = at::matmul(d, v1.transpose(-2, -1)) + turned(at::matmul(turned(d), v2.transpose(-2, -1)));
  const Tensor s = p * (of_p - (p * of_p).sum(-1, true)) * of.scale;
  put(made.query, at::matmul(s, k1) + turned(at::matmul(turned(s), k2)));
  put(made.key1, at::matmul(s.transpose(-2, -1), q));
  put(made.value1, at::matmul(p.transpose(-2, -1), d));
  put(made.key2, turned(at::matmul(turned(s).transpose(-2, -1), turned(q))));
  put(made.value2, turned(at::matmul(turned(p).transpose(-2, -1), turned(d))));
}

}  // namespace softnpu::ops::kernels
