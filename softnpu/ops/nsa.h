// Native sparse attention: attention over compressed keys that scores blocks, attention over the best blocks, and both of one query a sequence
// over keys in pages; the compression itself is compress.h, into a cache here. Who calls it: expressions of ops/aclnn.yaml that name it as
// their header; check_… in phase one.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "softnpu/ops/indexer.h"

namespace softnpu::ops::kernels {

// Rows of sequences behind each other, [rows, heads, columns], by their running ends.
struct NsaHeads {
  const at::Tensor &query, &key, &value;
  double scale;
  int64_t heads;
  at::IntArrayRef ends, key_ends, block_ends = {};  // the last: of blocks that may be chosen
  std::string_view layout;
  int64_t mode = 0;
  const std::optional<at::Tensor>&mask = kAbsentOperand, &block_mask = kAbsentOperand;
};
struct NsaBlocks {
  int64_t compressed, stride, selected, count;
};
struct NsaSums {  // [rows, heads, 8]
  const at::Tensor &largest, &sum;
};
void check_compressed_attention(const NsaHeads& of, const NsaBlocks& b, const NsaSums& sums, const at::Tensor& out,
                                const at::Tensor& best);
void compressed_attention(const NsaHeads& of, const NsaBlocks& b, at::Tensor& largest, at::Tensor& sum, at::Tensor& out,
                          at::Tensor& best);

struct Chosen {  // blocks [rows, key heads, count] of a row's sequence; -1 names none
  const at::Tensor& index;
  int64_t block, count;
};
void check_selected_attention(const NsaHeads& of, const Chosen& chosen, const NsaSums& sums, const at::Tensor& out);
void selected_attention(const NsaHeads& of, const Chosen& chosen, at::Tensor& largest, at::Tensor& sum,
                        at::Tensor& out);
struct NsaGradients {
  at::Tensor &query, &key, &value;
};
void check_selected_attention_backward(const NsaHeads& of, const Chosen& chosen, const NsaSums& sums,
                                       const at::Tensor& grad, const NsaGradients& made);
void selected_attention_backward(const NsaHeads& of, const Chosen& chosen, const NsaSums& sums, const at::Tensor& grad,
                                 const NsaGradients& made);

// Of one query a sequence, over keys in pages.
struct NsaPages {
  const at::Tensor &query, &key, &value;
  double scale;
  int64_t heads, key_heads, page, mode;
  const std::optional<at::Tensor>&table, &mask = kAbsentOperand, &block_mask = kAbsentOperand;
  std::string_view layout;
  at::IntArrayRef query_lengths, lengths, selected_lengths = {};
};
void check_compressed_decode(const NsaPages& of, const NsaBlocks& b, const at::Tensor& out, const at::Tensor& best);
void compressed_decode(const NsaPages& of, const NsaBlocks& b, at::Tensor& out, at::Tensor& best);
void check_selected_decode(const NsaPages& of, const Chosen& chosen, const at::Tensor& out);
void selected_decode(const NsaPages& of, const Chosen& chosen, at::Tensor& out);

// The last window of each sequence that has just filled one, into its row of the cache.
struct CachedWindows {
  const at::Tensor &input, &weight, &slots;
  const std::optional<at::Tensor>& table;
  at::IntArrayRef lengths;
  std::string_view layout;
  int64_t block, stride, type, page;
};
void check_compressed_into(const CachedWindows& of, const at::Tensor& cache);
void compressed_into(const CachedWindows& of, at::Tensor& cache);

}  // namespace softnpu::ops::kernels
