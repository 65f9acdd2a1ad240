// One call of attention, cut into blocks that fit into a processor's cache: heads that share keys, some rows of queries, and the keys
// that these rows may see. Views, masks and biases of a block, whatever the layout. Who uses it: attention.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "softnpu/ops/attention.h"
#include "softnpu/ops/drop_mask.h"

namespace softnpu::ops::kernels {

// Where a sequence's rows lie in each tensor.
struct Sequence {
  int64_t batch, q_from, q_to, kv_from, kv_to;
  int64_t drop_from;  // first bit of its part of the drop mask

  int64_t queries() const { return q_to - q_from; }
  int64_t keys() const { return kv_to - kv_from; }
};

// A part of a sequence: heads of the key (with all heads of the query that share them), rows of the query, rows of the key.
struct Block {
  const Sequence* sequence;
  int64_t head, heads, row, rows, key, keys;
};

// Key j is seen by query i if -before <= j - i - diagonal <= after, or if it is one of the first `prefix`.
struct Band {
  int64_t before, after, diagonal, prefix;

  int64_t begin(int64_t row, int64_t keys) const;
  int64_t end(int64_t row, int64_t keys) const;
};

// Immutable: blocks may be worked on by several threads. `options` outlives it.
class AttentionBlocks {
 public:
  AttentionBlocks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionOptions& options);

  const std::vector<Sequence>& sequences() const { return sequences_; }
  const AttentionOptions& options() const { return o_; }
  at::ScalarType type() const { return type_; }
  int64_t group() const { return o_.heads / kv_heads_; }  // heads of the query for each of the key
  int64_t kv_heads() const { return kv_heads_; }

  // Heads side by side, with all their queries (and keys of the whole sequence).
  std::vector<Block> heads() const;
  // Rows of queries of such a block, with the keys that one of them sees.
  std::vector<Block> rows(const Block& heads) const;

  // Views of the caller's tensors: [heads, rows, columns].
  at::Tensor queries(const at::Tensor& t, const Block& b) const;
  at::Tensor keys(const at::Tensor& t, const Block& b) const;
  // [batch, heads, queries, 8] or, packed, [tokens, heads, 8] as [heads, rows, 8].
  at::Tensor statistic(const at::Tensor& t, const Block& b) const;
  // Operands with their rotary columns, in the type of the arithmetic.
  at::Tensor query(const at::Tensor& q, const Block& b) const;
  at::Tensor key(const at::Tensor& k, const Block& b) const;

  // [heads, rows, keys]: scaled and shifted, -inf where a query must not see a key.
  at::Tensor scores(const at::Tensor& query, const at::Tensor& key, const Block& b) const;
  // Adds what the block says of the bias, `gradient` [heads, rows, keys] being that of the scores; `out` is like the bias.
  void add_shift_gradient(at::Tensor& out, const at::Tensor& gradient, const Block& b) const;
  at::Tensor sinks(const Block& b) const;  // [heads, 1, 1], or undefined

 private:
  void find_sequences(const at::Tensor& q, const at::Tensor& k);
  Band band(const Sequence& s) const;
  void hide(at::Tensor& scores, const Block& b) const;
  bool has_slopes() const { return o_.shift_kind >= 2; }
  at::Tensor shift_view(const at::Tensor& t, const Block& b) const;
  at::Tensor distance(const Block& b) const;

  const AttentionOptions& o_;
  at::ScalarType type_;
  int64_t columns_, kv_heads_;
  std::vector<Sequence> sequences_;
};

// A block's part of the drop mask, row by row: one at a time, which stays in the nearest cache.
class KeptRows {
 public:
  KeptRows(const AttentionBlocks& call, const Block& b);

  // 1 / keep where a weight of that row, counted over all heads of the block, stays, 0 where it is dropped; valid until the next call. Null
  // without dropout. T is of the type of the arithmetic.
  template <class T>
  const T* row(int64_t at, const T* of) const;
  bool some() const { return flags_.defined(); }

 private:
  Block block_;
  int64_t group_, heads_;
  at::Tensor flags_, table_, values_;  // undefined without dropout
  std::optional<DropMask> stays_;
};

}  // namespace softnpu::ops::kernels
