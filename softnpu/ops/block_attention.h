// Attention over the blocks of keys that a mask opens for each block of queries, and over two sets of keys at once (triangles of nodes), with
// their gradients. Who calls it: expressions of ops/aclnn.yaml that name it as their header; check_… in phase one.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace softnpu::ops::kernels {

struct BlockHeads {
  const at::Tensor &query, &key, &value;  // "BNSD" [batch, heads, rows, columns] or "TND" [rows, heads, columns]
  const std::optional<at::Tensor>& open;  // a byte for each block of queries and block of keys; none: all
  const std::optional<at::Tensor>& mask;  // not implemented
  at::IntArrayRef block, lengths, key_lengths;
  std::string_view layout, key_layout;
  int64_t key_heads, mask_type, before, after;
  double scale;
};
struct BlockPages {  // not implemented
  const std::optional<at::Tensor>& table;
  int64_t size;
};
void check_block_attention(const BlockHeads& of, const BlockPages& pages, int64_t precise, int64_t with_sums,
                           const at::Tensor& out, const at::Tensor& sums);
void block_attention(const BlockHeads& of, at::Tensor& out, at::Tensor& sums);  // sums: their logarithms, [.., 1]

struct BlockGradients {
  at::Tensor &query, &key, &value;
};
void check_block_attention_backward(const BlockHeads& of, const at::Tensor& grad, const at::Tensor& sums,
                                    const BlockGradients& made);
// Without elements in `sums` they are computed again.
void block_attention_backward(const BlockHeads& of, const at::Tensor& grad, const at::Tensor& sums,
                              const BlockGradients& made);

// Of queries [b, h, n, m, d], keys and values [b, h, n, k, d] and others [b, h, k, m, d]; mask [b, 1, n, 1, k].
struct TwoSets {
  const at::Tensor &query, &key1, &value1, &key2, &value2;
  const std::optional<at::Tensor>& mask;
  double scale;
};
void check_two_sets(const TwoSets& of, const at::Tensor& largest, const at::Tensor& sum, const at::Tensor& out);
void two_sets(const TwoSets& of, at::Tensor& largest, at::Tensor& sum, at::Tensor& out);  // sums [b, h, n, m, 8]
struct TwoSetGradients {
  at::Tensor &query, &key1, &value1, &key2, &value2;
};
void check_two_sets_backward(const TwoSets& of, const at::Tensor& grad, const at::Tensor& largest,
                             const at::Tensor& sum, const TwoSetGradients& made);
void two_sets_backward(const TwoSets& of, const at::Tensor& grad, const at::Tensor& largest, const at::Tensor& sum,
                       const TwoSetGradients& made);

}  // namespace softnpu::ops::kernels
