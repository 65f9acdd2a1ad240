// Which keys a query looks at: rows of batches, of packed sequences and of paged caches brought to one form, masks, and choices of keys by
// index; and attention over what they leave, with its gradients. Sums are fp32, or fp64 of fp64 operands. What it is not: an operator. Who
// uses it: indexer, sparse_attention, block_attention, nsa. The scores of all keys are made, also where few are chosen.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

// Of each row of queries, [batch, rows]: the first key of its sequence, how many there are, its place in the sequence, and the sequence's rows.
struct KeyRows {
  at::Tensor first, count, place, rows;
};

// Queries are "BSND" or "TND", keys the same or "PA_BSND", blocks that a table names. Empty words are "BSND".
class RowLayout {
 public:
  RowLayout(std::string_view query, std::string_view key, const std::optional<at::Tensor>& table);
  at::Tensor queries(const at::Tensor& t) const { return packed_ ? t.unsqueeze(0) : t; }  // [batch, rows, ..]
  at::Tensor keys(const at::Tensor& t) const;                                             // [batch, keys, ..]
  at::Tensor back(const at::Tensor& t) const { return packed_ ? t.squeeze(0) : t; }       // from [batch, ..]
  int64_t query_dims() const { return packed_ ? 3 : 4; }
  int64_t key_dims() const { return packed_ && !table_ ? 3 : 4; }
  bool packed() const { return packed_; }
  // Lengths: of each sequence, or running ends of packed ones; all rows where they are absent.
  KeyRows rows(const at::Tensor& query, const at::Tensor& key, const std::optional<at::Tensor>& query_lengths,
               const std::optional<at::Tensor>& key_lengths) const;
  // Phase one: as many lengths as there are sequences of query and key as the caller gives them.
  void need_lengths(const at::Tensor& query, const std::optional<at::Tensor>& query_lengths,
                    const std::optional<at::Tensor>& key_lengths) const;

 private:
  bool packed_;
  std::optional<at::Tensor> table_;
};

at::Tensor listed(at::IntArrayRef lengths);  // none: undefined
std::optional<at::Tensor> listed_if_any(at::IntArrayRef lengths);

// The heads of keys divide those of queries, which have their columns.
void need_heads(const at::Tensor& query, const at::Tensor& key, int64_t dim = -2);

// The keys that rows may see, [batch, rows, keys]; `causal`: the last row of a sequence sees its last key, the row before one less.
at::Tensor seen_keys(const KeyRows& r, int64_t keys, bool causal);
// How often indices [batch, rows, heads, chosen], blocks of `block` keys of the row's sequence, name a key: [batch, rows, heads, keys]. An
// index below zero names none.
at::Tensor chosen_keys(const KeyRows& r, int64_t keys, const at::Tensor& indices, int64_t block);

// [batch, rows, heads, columns] -> [batch, heads, rows, columns], a head of keys beside each of `heads` of queries.
at::Tensor by_head(const at::Tensor& t, int64_t heads);
// And back, a gradient: those of the queries' heads beside a key's are summed.
at::Tensor of_heads(const at::Tensor& t, int64_t heads);

// Softmax of scale * query @ key.T + bias, and times value: [batch, rows, heads, columns]. A row without keys gives zeros. `sinks`, a number a
// head, are logits beside the keys'. The bias broadcasts to [batch, heads, rows, keys]; -inf hides a key. Not rounded.
struct Attended {
  at::Tensor out, largest, sum, weights;  // [batch, heads, rows] twice, [batch, heads, rows, keys]
};
Attended attended(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double scale,
                  const at::Tensor& bias, const std::optional<at::Tensor>& sinks = std::nullopt);

struct AttendedGradients {
  at::Tensor query, key, value;  // as the operands
};
// `weights` are those of the forward pass.
AttendedGradients attended_backward(const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, double scale, const at::Tensor& weights);
// The weights again, of the two numbers a row that a forward pass has left, [batch, heads, rows].
at::Tensor weights_of(const at::Tensor& query, const at::Tensor& key, double scale, const at::Tensor& bias,
                      const at::Tensor& largest, const at::Tensor& sum);

}  // namespace softnpu::ops::kernels
