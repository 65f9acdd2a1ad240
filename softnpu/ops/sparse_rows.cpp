// See sparse_rows.h.
#include "softnpu/ops/sparse_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// Of running ends: where each sequence starts.
Tensor starts(const Tensor& ends) {
  return at::cat({at::zeros({1}, ends.options()), ends.narrow(0, 0, ends.size(0) - 1)});
}

std::string_view or_batches(std::string_view layout) { return layout.empty() ? "BSND" : layout; }

}  // namespace

Tensor listed(IntArrayRef lengths) { return long_tensor(lengths); }

OptionalTensor listed_if_any(IntArrayRef lengths) {
  return lengths.empty() ? std::nullopt : OptionalTensor(long_tensor(lengths));
}

void need_heads(const Tensor& query, const Tensor& key, int64_t dim) {
  const int64_t heads = query.size(dim), key_heads = key.size(dim);
  TORCH_CHECK(key_heads > 0 && heads % key_heads == 0, "query has ", heads, " heads, no multiple of the ", key_heads,
              " of key");
  TORCH_CHECK(key.size(-1) == query.size(-1), "key has ", key.size(-1), " columns, not the ", query.size(-1),
              " of query");
}

RowLayout::RowLayout(std::string_view query, std::string_view key, const OptionalTensor& table)
    : packed_(or_batches(query) == "TND") {
  query = or_batches(query);
  key = or_batches(key);
  need_word("the queries' layout", query, {"BSND", "TND"});
  need_word("the keys' layout", key, {"BSND", "TND", "PA_BSND"});
  TORCH_CHECK(key == "PA_BSND" || key == query, "the keys' layout is that of the queries, ", query,
              ", or PA_BSND, not ", key);
  TORCH_CHECK((key == "PA_BSND") == given(table), "blockTable goes with keys of PA_BSND, and with no others");
  if (!given(table)) return;
  need_dims("blockTable", *table, {2});
  table_ = table;
}

Tensor RowLayout::keys(const Tensor& t) const {
  if (!table_) return packed_ ? t.unsqueeze(0) : t;
  const Tensor blocks = longs(*table_).clamp_min(0);
  const Tensor picked = t.index_select(0, blocks.flatten()).unflatten(0, blocks.sizes());
  return packed_ ? picked.flatten(0, 2).unsqueeze(0) : picked.flatten(1, 2);
}

void RowLayout::need_lengths(const Tensor& query, const OptionalTensor& query_lengths,
                             const OptionalTensor& key_lengths) const {
  TORCH_CHECK(given(key_lengths) || !(packed_ || table_), "the keys' lengths are needed with this layout");
  TORCH_CHECK(given(query_lengths) || !packed_, "the queries' lengths are needed with TND");
  const int64_t sequences = packed_ ? query_lengths->numel() : query.size(0);
  if (given(query_lengths)) need_sizes("the queries' lengths", query_lengths, {sequences});
  if (given(key_lengths)) need_sizes("the keys' lengths", key_lengths, {sequences});
  if (table_) need_sizes("blockTable", *table_, {sequences, -1});
}

KeyRows RowLayout::rows(const Tensor& query, const Tensor& key, const OptionalTensor& query_lengths,
                        const OptionalTensor& key_lengths) const {
  const auto options = query.options().dtype(at::kLong);
  const int64_t count = query.size(1), batch = query.size(0);
  if (!packed_) {
    const auto each = [&](const OptionalTensor& lengths, int64_t otherwise) {
      if (!given(lengths)) return at::full({batch, count}, otherwise, options);
      return longs(*lengths).unsqueeze(1).expand({batch, count});
    };
    return {at::zeros({batch, count}, options), each(key_lengths, key.size(1)),
            at::arange(count, options).unsqueeze(0).expand({batch, count}), each(query_lengths, count)};
  }
  const Tensor ends = longs(*query_lengths), begin = starts(ends), key_ends = longs(*key_lengths);
  const Tensor token = at::arange(count, options);
  const Tensor sequence = token.unsqueeze(1).ge(ends).sum(1).clamp_max(ends.size(0) - 1);
  const auto of_token = [&](const Tensor& t) { return t.index_select(0, sequence).unsqueeze(0); };
  const Tensor place = token.unsqueeze(0) - of_token(begin), length = of_token(ends - begin);
  if (!table_) return {of_token(starts(key_ends)), of_token(key_ends - starts(key_ends)), place, length};
  return {sequence.unsqueeze(0) * (key.size(1) / table_->size(0)), of_token(key_ends), place, length};
}

Tensor seen_keys(const KeyRows& r, int64_t keys, bool causal) {
  const Tensor place = at::arange(keys, r.first.options()) - r.first.unsqueeze(-1), count = r.count.unsqueeze(-1);
  const Tensor is_row = r.place.lt(r.rows).unsqueeze(-1);
  const Tensor seen = place.ge(0).logical_and(place.lt(count)).logical_and(is_row);
  return causal ? seen.logical_and(place.le(count + (r.place - r.rows).unsqueeze(-1))) : seen;
}

Tensor chosen_keys(const KeyRows& r, int64_t keys, const Tensor& indices, int64_t block) {
  const int64_t blocks = (keys + block - 1) / block;
  Tensor index = longs(indices);
  index = at::where(index.lt(0).logical_or(index.ge(blocks)), blocks, index);  // the last column, which no key reads
  const int64_t batch = index.size(0), rows = index.size(1), heads = index.size(2);
  const auto options = indices.options().dtype(at::kFloat);
  Tensor named = at::zeros({batch, rows, heads, blocks + 1}, options);
  named.scatter_add_(-1, index, at::full({1}, 1, options).expand(index.sizes()));
  const Tensor place = at::arange(keys, r.first.options()) - r.first.unsqueeze(-1);
  const Tensor of = at::where(place.lt(0), blocks, place.div(block, "floor").clamp_max(blocks));
  return named.gather(-1, of.unsqueeze(2).expand({batch, rows, heads, keys}));
}

Tensor by_head(const Tensor& t, int64_t heads) {
  const int64_t own = t.size(2);
  const Tensor turned = wide(t).permute({0, 2, 1, 3});
  return own == heads ? turned : turned.repeat_interleave(heads / own, 1);
}

Tensor of_heads(const Tensor& t, int64_t heads) {
  const Tensor summed = t.size(1) == heads ? t : t.unflatten(1, {heads, t.size(1) / heads}).sum(2);
  return summed.permute({0, 2, 1, 3});
}

Attended attended(const Tensor& query, const Tensor& key, const Tensor& value, double scale, const Tensor& bias,
                  const OptionalTensor& sinks) {
  const int64_t heads = query.size(2);
  const Tensor q = by_head(query, heads), k = by_head(key, heads), v = by_head(value, heads);
  const Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale + bias.to(q.scalar_type());
  const bool empty = scores.size(-1) == 0;
  Tensor largest = empty ? at::full(scores.sizes().slice(0, 3), kNone, q.options()) : scores.amax(-1);
  Tensor sink;
  if (given(sinks)) {
    sink = sinks->to(q.scalar_type()).unsqueeze(0).unsqueeze(-1).expand_as(largest);
    largest = at::maximum(largest, sink);
  }
  const Tensor from = at::where(largest.eq(kNone), 0, largest), e = at::exp(scores - from.unsqueeze(-1));
  Tensor sum = e.sum(-1);
  if (sink.defined()) sum = sum + at::exp(sink - from);
  const Tensor weights = e / at::where(sum.eq(0), 1, sum).unsqueeze(-1);
  return {at::matmul(weights, v).permute({0, 2, 1, 3}), largest, sum, weights};
}

Tensor weights_of(const Tensor& query, const Tensor& key, double scale, const Tensor& bias, const Tensor& largest,
                  const Tensor& sum) {
  const int64_t heads = query.size(2);
  const Tensor q = by_head(query, heads), k = by_head(key, heads);
  const Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale + bias.to(q.scalar_type());
  const Tensor top = largest.to(q.scalar_type()), total = sum.to(q.scalar_type());
  const Tensor from = at::where(top.eq(kNone), 0, top).unsqueeze(-1);
  return at::exp(scores - from) / at::where(total.eq(0), 1, total).unsqueeze(-1);
}

AttendedGradients attended_backward(const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value,
                                    double scale, const Tensor& weights) {
  const int64_t heads = query.size(2);
  const Tensor q = by_head(query, heads), k = by_head(key, heads), v = by_head(value, heads), d = by_head(grad, heads);
  const Tensor of_weights = at::matmul(d, v.transpose(-2, -1));
  const Tensor of_scores = weights * (of_weights - (weights * of_weights).sum(-1, true)) * scale;
  return {of_heads(at::matmul(of_scores, k), heads), of_heads(at::matmul(of_scores.transpose(-2, -1), q), key.size(2)),
          of_heads(at::matmul(weights.transpose(-2, -1), d), value.size(2))};
}

}  // namespace softnpu::ops::kernels
