// Which keys a query looks at: rows of batches, of packed sequences and of paged caches brought to one form, masks, and choices of keys by
// index. Tensor arithmetic, so that lengths on the device stay there. What it is not: attention. Who uses it: indexer, sparse_attention, nsa.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

// Of each row of queries, [batch, rows]: the first key of its sequence, how many there are, its place in the sequence, and the sequence's rows.
struct KeyRows {
  at::Tensor first, count, place, rows;
};

// Queries are "BSND" or "TND", keys the same or "PA_BSND", blocks that a table names.
class RowLayout {
 public:
  RowLayout(const char* op, std::string_view query, std::string_view key, const OptionalTensor& table);
  at::Tensor queries(const at::Tensor& t) const { return packed_ ? t.unsqueeze(0) : t; }  // [batch, rows, ..]
  at::Tensor keys(const at::Tensor& t) const;                                             // [batch, keys, ..]
  at::Tensor back(const at::Tensor& t) const { return packed_ ? t.squeeze(0) : t; }       // from [batch, ..]
  int64_t query_dims() const { return packed_ ? 3 : 4; }
  int64_t key_dims() const { return packed_ && !table_ ? 3 : 4; }
  // Lengths: of each sequence, or running ends of packed ones; all rows where they are absent.
  KeyRows rows(const at::Tensor& query, const at::Tensor& key, const OptionalTensor& query_lengths,
               const OptionalTensor& key_lengths) const;
  KeyRows rows(const at::Tensor& query, const at::Tensor& key, at::OptionalSymIntArrayRef query_lengths,
               at::OptionalSymIntArrayRef key_lengths) const;

 private:
  const char* op_;
  bool packed_;
  OptionalTensor table_;
};

int64_t known(const at::Tensor& t, int64_t dim);  // a size that the sequence of calls depends on
at::Tensor long_list(c10::SymIntArrayRef values, const at::Tensor& like);

// The keys that rows may see, [batch, rows, keys]; `causal`: the last row of a sequence sees its last key, the row before one less.
at::Tensor seen_keys(const KeyRows& r, int64_t keys, bool causal);
// How often indices [batch, rows, heads, chosen], blocks of `block` keys of the row's sequence, name a key: [batch, rows, heads, keys]. An
// index below zero names none.
at::Tensor chosen_keys(const KeyRows& r, int64_t keys, const at::Tensor& indices, int64_t block);

// [batch, rows, heads, columns] -> [batch, heads, rows, columns], a head of keys beside each of `heads` of queries.
at::Tensor by_head(const at::Tensor& t, int64_t heads);

struct Attended {
  at::Tensor out, largest, sum,
      weights;  // [batch, rows, heads, columns], [batch, heads, rows] twice, [batch, heads, rows, keys]
};
// Softmax of scale * query @ key.T + bias times value, in float32. A row without keys gives zeros. `sinks`, a number a head, are logits beside
// the keys'. The bias broadcasts to [batch, heads, rows, keys]; -inf hides a key.
Attended attended(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double scale,
                  const at::Tensor& bias, const OptionalTensor& sinks = std::nullopt);

}  // namespace npu::ops
