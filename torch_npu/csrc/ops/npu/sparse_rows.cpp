// See sparse_rows.h.
#include "csrc/ops/npu/sparse_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

// Of running ends: where each sequence starts.
at::Tensor starts(const at::Tensor& ends) {
  return at::cat({at::zeros({1}, ends.options()), ends.narrow(0, 0, known(ends, 0) - 1)});
}

at::Tensor whole(const at::Tensor& t) { return t.to(at::kLong); }

}  // namespace

int64_t known(const at::Tensor& t, int64_t dim) { return t.sym_size(dim).guard_int(__FILE__, __LINE__); }

at::Tensor long_list(c10::SymIntArrayRef values, const at::Tensor& like) {
  std::vector<at::Tensor> each;
  for (const c10::SymInt& v : values) {
    each.push_back(at::full({1}, v.guard_int(__FILE__, __LINE__), like.options().dtype(at::kLong)));
  }
  return each.empty() ? at::zeros({0}, like.options().dtype(at::kLong)) : at::cat(each);
}

RowLayout::RowLayout(const char* op, std::string_view query, std::string_view key, const OptionalTensor& table)
    : op_(op), packed_(query == "TND") {
  check_word(op, "the queries' layout", query, {"BSND", "TND"});
  check_word(op, "the keys' layout", key, {"BSND", "TND", "PA_BSND"});
  TORCH_CHECK_VALUE(key == "PA_BSND" || key == query, op, ": the keys' layout is that of the queries, ", query,
                    ", or PA_BSND, not ", key);
  TORCH_CHECK_VALUE((key == "PA_BSND") == given(table), op,
                    ": block_table goes with keys of PA_BSND, and with no others");
  if (!given(table)) return;
  need_dims(op, "block_table", *table, {2});
  need_integers(op, "block_table", *table);
  table_ = table;
}

at::Tensor RowLayout::keys(const at::Tensor& t) const {
  if (!table_) return packed_ ? t.unsqueeze(0) : t;
  const at::Tensor blocks = whole(*table_).clamp_min(0);
  const at::Tensor picked = t.index_select(0, blocks.flatten()).unflatten(0, {known(blocks, 0), known(blocks, 1)});
  return packed_ ? picked.flatten(0, 2).unsqueeze(0) : picked.flatten(1, 2);
}

KeyRows RowLayout::rows(const at::Tensor& query, const at::Tensor& key, const OptionalTensor& query_lengths,
                        const OptionalTensor& key_lengths) const {
  const auto options = query.options().dtype(at::kLong);
  for (const auto& [name, t] :
       {std::pair{"the queries' lengths", &query_lengths}, {"the keys' lengths", &key_lengths}}) {
    if (!given(*t)) continue;
    need_dims(op_, name, **t, {1});
    need_integers(op_, name, *t);
  }
  TORCH_CHECK_VALUE(given(key_lengths) || !(packed_ || table_), op_, ": the keys' lengths are needed with this layout");
  const int64_t count = known(query, 1);
  if (!packed_) {
    const int64_t batch = known(query, 0);
    const auto each = [&](const OptionalTensor& lengths, int64_t otherwise, const char* name) {
      if (!given(lengths)) return at::full({batch, count}, otherwise, options);
      need_sizes(op_, name, lengths, {batch});
      return whole(*lengths).unsqueeze(1).expand({batch, count});
    };
    return {at::zeros({batch, count}, options), each(key_lengths, known(key, 1), "the keys' lengths"),
            at::arange(count, options).unsqueeze(0).expand({batch, count}),
            each(query_lengths, count, "the queries' lengths")};
  }
  TORCH_CHECK_VALUE(given(query_lengths), op_, ": the queries' lengths are needed with TND");
  TORCH_CHECK_VALUE(known(*query_lengths, 0) > 0, op_, ": the queries' lengths are empty");
  need_sizes(op_, "the keys' lengths", key_lengths, {query_lengths->sym_size(0)});
  const at::Tensor ends = whole(*query_lengths), begin = starts(ends), key_ends = whole(*key_lengths);
  const at::Tensor token = at::arange(count, options);
  const at::Tensor sequence = token.unsqueeze(1).ge(ends).sum(1).clamp_max(known(ends, 0) - 1);
  const auto of_token = [&](const at::Tensor& t) { return t.index_select(0, sequence).unsqueeze(0); };
  const at::Tensor place = token.unsqueeze(0) - of_token(begin), length = of_token(ends - begin);
  if (!table_) return {of_token(starts(key_ends)), of_token(key_ends - starts(key_ends)), place, length};
  return {sequence.unsqueeze(0) * (known(key, 1) / known(*table_, 0)), of_token(key_ends), place, length};
}

KeyRows RowLayout::rows(const at::Tensor& query, const at::Tensor& key, at::OptionalSymIntArrayRef query_lengths,
                        at::OptionalSymIntArrayRef key_lengths) const {
  const auto listed = [&](at::OptionalSymIntArrayRef lengths) {
    return lengths ? OptionalTensor(long_list(*lengths, query)) : std::nullopt;
  };
  return rows(query, key, listed(query_lengths), listed(key_lengths));
}

at::Tensor seen_keys(const KeyRows& r, int64_t keys, bool causal) {
  const at::Tensor place = at::arange(keys, r.first.options()) - r.first.unsqueeze(-1), count = r.count.unsqueeze(-1);
  const at::Tensor is_row = r.place.lt(r.rows).unsqueeze(-1);
  const at::Tensor seen = place.ge(0).logical_and(place.lt(count)).logical_and(is_row);
  return causal ? seen.logical_and(place.le(count + (r.place - r.rows).unsqueeze(-1))) : seen;
}

at::Tensor chosen_keys(const KeyRows& r, int64_t keys, const at::Tensor& indices, int64_t block) {
  const int64_t blocks = (keys + block - 1) / block;
  at::Tensor index = whole(indices);
  index = at::where(index.lt(0).logical_or(index.ge(blocks)), blocks, index);  // the last column, which no key reads
  const int64_t batch = known(index, 0), rows = known(index, 1), heads = known(index, 2);
  const auto options = indices.options().dtype(at::kFloat);
  const at::Tensor named = at::zeros({batch, rows, heads, blocks + 1}, options)
                               .scatter_add(-1, index, at::full({1}, 1, options).expand(index.sizes()));
  const at::Tensor place = at::arange(keys, r.first.options()) - r.first.unsqueeze(-1);
  const at::Tensor of = at::where(place.lt(0), blocks, place.div(block, "floor").clamp_max(blocks));
  return named.gather(-1, of.unsqueeze(2).expand({batch, rows, heads, keys}));
}

at::Tensor by_head(const at::Tensor& t, int64_t heads) {
  const int64_t own = known(t, 2);
  const at::Tensor turned = wide(t).permute({0, 2, 1, 3});
  return own == heads ? turned : turned.repeat_interleave(heads / own, 1);
}

Attended attended(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double scale,
                  const at::Tensor& bias, const OptionalTensor& sinks) {
  const int64_t heads = known(query, 2);
  const at::Tensor q = by_head(query, heads), k = by_head(key, heads), v = by_head(value, heads);
  const at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale + bias.to(q.scalar_type());
  at::Tensor largest = scores.detach().amax(-1);
  at::Tensor sink;
  if (given(sinks)) {
    sink = wide(*sinks).unsqueeze(0).unsqueeze(-1).expand_as(largest);
    largest = at::maximum(largest, sink.detach());
  }
  const double none = -std::numeric_limits<double>::infinity();
  const at::Tensor from = at::where(largest.eq(none), 0, largest), e = at::exp(scores - from.unsqueeze(-1));
  at::Tensor sum = e.sum(-1);
  if (sink.defined()) sum = sum + at::exp(sink - from);
  const at::Tensor weights = e / at::where(sum.eq(0), 1, sum).unsqueeze(-1);
  return {at::matmul(weights, v).permute({0, 2, 1, 3}).to(query.scalar_type()), largest, sum.detach(), weights};
}

}  // namespace npu::ops
