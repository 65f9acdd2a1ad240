// Attention over a choice of keys: by index, by blocks of a mask, and over two sets of keys. Compositions of PyTorch's operators in float32;
// PyTorch derives their gradients. Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/indexer.h"

namespace npu::ops {

struct SparseHeads {
  const at::Tensor &query, &key;
  const OptionalTensor& value;  // absent: the key without its rotated part
  const OptionalTensor &query_rope, &key_rope;
  const at::Tensor& indices;
  double scale;
  int64_t block, mode;  // 2: rotated parts are columns of query and key
  const OptionalTensor& sinks;
};
Triple sparse_attention(const SparseHeads& of, const SparseLengths& lengths, const OptionalTensor& table,
                        std::string_view layout, std::string_view key_layout, const Window& window, bool with_sums);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> sparse_attention_backward(
    const SparseHeads& of, const at::Tensor& grad, const SparseLengths& lengths, std::string_view layout,
    const Window& window);

// Of keys and values whose rows are 8-bit numbers, the rotated part in the type of query, and a float32 scale for each `tile` of the former.
struct QuantizedRows {
  const at::Tensor &key, &value;
  int64_t tile, rotated;
};
at::Tensor sparse_attention_of_bytes(const at::Tensor& query, const QuantizedRows& rows, const at::Tensor& indices,
                                     double scale, int64_t block, const SparseLengths& lengths,
                                     const OptionalTensor& table, std::string_view layout, std::string_view key_layout,
                                     const Window& window);

struct BlockHeads {
  const at::Tensor &query, &key, &value, &mask;  // a byte for each block of queries and block of keys
  at::IntArrayRef block;
  std::string_view layout, key_layout;
  int64_t key_heads;
  double scale;
  at::OptionalIntArrayRef lengths, key_lengths;
};
Pair block_attention(const BlockHeads& of, bool with_lse);
Triple block_attention_backward(const BlockHeads& of, const at::Tensor& grad);

struct TwoSets {
  const at::Tensor &query, &key1, &value1, &key2, &value2;
  const OptionalTensor& mask;
  double scale;
};
Triple two_set_attention(const TwoSets& of);  // largest, sum, out
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> two_set_attention_backward(
    const at::Tensor& grad, const TwoSets& of);
void check_sparse_attention_of_bytes(const at::Tensor& key, const at::Tensor& value, int64_t key_quant_mode,
                                     int64_t value_quant_mode, const OptionalTensor& key_dequant_scale,
                                     const OptionalTensor& value_dequant_scale, int64_t attention_mode,
                                     int64_t quant_scale_repo_mode, std::optional<int64_t> key_dtype,
                                     std::optional<int64_t> value_dtype);

}  // namespace npu::ops
