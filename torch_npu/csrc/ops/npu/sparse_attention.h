// Attention over a choice of keys: by index, by blocks of a mask, and over two sets of keys. Checks of arguments, and sizes; the device computes.
// Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/indexer.h"

namespace npu::ops {

struct SparseHeads {
  const at::Tensor &query, &key;
  const OptionalTensor& value;  // absent: the key without its rotated part
  const OptionalTensor &query_rope, &key_rope;
  const at::Tensor& indices;
  int64_t block, mode;  // 2: rotated parts are columns of query and key
};
void check_sparse_attention(const char* op, const SparseHeads& of, const SparseLengths& lengths,
                            const OptionalTensor& table, std::string_view layout, std::string_view key_layout,
                            const Window& window, const OptionalTensor& sinks = std::nullopt);
Sizes sparse_out(const at::Tensor& query, const at::Tensor& key, const OptionalTensor& value);
Sizes sparse_sums(const at::Tensor& query, const at::Tensor& key, std::string_view layout);
// Sums without elements are computed again.
void check_sparse_gradient(const SparseHeads& of, const at::Tensor& grad, const at::Tensor& largest,
                           const at::Tensor& sum, std::string_view layout);
// Of the numbers beside the keys' scores: their share of the softmax takes from what the others give.
at::Tensor sink_gradient(const at::Tensor& grad, const at::Tensor& out, const OptionalTensor& sinks,
                         const at::Tensor& largest, const at::Tensor& sum, std::string_view layout);
void check_sink_gradient(const OptionalTensor& sinks, std::string_view layout, std::string_view key_layout,
                         bool with_sums);

// Of keys and values whose rows are 8-bit numbers, the rotated part in the type of query, and a float32 scale for each `tile` of the former.
struct QuantizedRows {
  const at::Tensor &key, &value;
  int64_t tile, rotated;
};
void check_rows_of_bytes(const at::Tensor& query, const QuantizedRows& rows, const at::Tensor& indices, int64_t block,
                         const SparseLengths& lengths, const OptionalTensor& table, std::string_view layout,
                         std::string_view key_layout, const Window& window);
void check_sparse_attention_of_bytes(const at::Tensor& key, const at::Tensor& value, int64_t key_quant_mode,
                                     int64_t value_quant_mode, const OptionalTensor& key_dequant_scale,
                                     const OptionalTensor& value_dequant_scale, int64_t attention_mode,
                                     int64_t quant_scale_repo_mode, std::optional<int64_t> key_dtype,
                                     std::optional<int64_t> value_dtype);

struct BlockHeads {
  const at::Tensor &query, &key, &value, &mask;  // a byte for each block of queries and block of keys
  at::IntArrayRef block;
  std::string_view layout, key_layout;
  int64_t key_heads;
  at::OptionalIntArrayRef lengths, key_lengths;
};
void check_block_attention(const char* op, const BlockHeads& of);
void check_block_sums(const BlockHeads& of, const at::Tensor& sums);  // sums without elements are computed again

struct TwoSets {
  const at::Tensor &query, &key1, &value1, &key2, &value2;
  const OptionalTensor& mask;
};
void check_two_sets(const char* op, const TwoSets& of);

}  // namespace npu::ops
