// The indexer of DeepSeek's sparse attention: which keys a query attends, and the loss it is trained with. Compositions of PyTorch's operators in
// float32. Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/sparse_rows.h"

namespace npu::ops {

struct IndexRows {
  const at::Tensor &query, &key, &weights;  // [batch, rows, heads, columns], keys, and a number a row and head
};
struct SparseLengths {
  const OptionalTensor &query, &key;
};
struct Window {
  int64_t mode, before, after;  // 0 everything, 3 causal from the right bottom; tokens before and after
};

Pair best_keys(const IndexRows& of, const SparseLengths& lengths, const OptionalTensor& table, std::string_view layout,
               std::string_view key_layout, int64_t count, const Window& window, bool with_values);
at::Tensor best_quantized_keys(const IndexRows& of, const at::Tensor& query_scale, const at::Tensor& key_scale,
                               const SparseLengths& lengths, const OptionalTensor& table, std::string_view layout,
                               std::string_view key_layout, int64_t count, const Window& window);
Triple best_keys_backward(const IndexRows& of, const at::Tensor& dy, const at::Tensor& indices,
                          const SparseLengths& lengths, std::string_view layout, const Window& window);

struct ListedLengths {
  at::OptionalSymIntArrayRef query, key;
};
Pair index_sums(const IndexRows& of, const ListedLengths& lengths, std::string_view layout, const Window& window);

struct MainAttention {
  const at::Tensor &query, &key, &largest, &sum;
  const OptionalTensor &query_rope, &key_rope;
  double scale;
};
// Gradients of the indexer's operands and the loss: the divergence of its distribution from that of attention, over all heads.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> index_loss(
    const char* op, const MainAttention& main, const IndexRows& of, const OptionalTensor& indices,
    const OptionalTensor& largest_index, const OptionalTensor& sum_index, const ListedLengths& lengths,
    std::string_view layout, const Window& window);
void check_quantized_index(const at::Tensor& query, const at::Tensor& key, int64_t query_quant_mode,
                           int64_t key_quant_mode, std::optional<int64_t> query_dtype,
                           std::optional<int64_t> key_dtype);

}  // namespace npu::ops
