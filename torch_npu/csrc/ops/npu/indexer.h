// The indexer of DeepSeek's sparse attention: which keys a query attends, and the loss it is trained with. Checks of arguments, and sizes; the
// device computes. Who uses it: rows of ops/npu.yaml.
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
void check_window(const char* op, const Window& w);

void check_best_keys(const IndexRows& of, const SparseLengths& lengths, const OptionalTensor& table,
                     std::string_view layout, std::string_view key_layout, int64_t count, const Window& window);
void check_best_quantized_keys(const IndexRows& of, const at::Tensor& query_scale, const at::Tensor& key_scale,
                               const SparseLengths& lengths, const OptionalTensor& table, std::string_view layout,
                               std::string_view key_layout, int64_t count, const Window& window);
void check_quantized_index(const at::Tensor& query, const at::Tensor& key, int64_t query_quant_mode,
                           int64_t key_quant_mode, std::optional<int64_t> query_dtype,
                           std::optional<int64_t> key_dtype);
Sizes chosen_sizes(const at::Tensor& query, const at::Tensor& key, int64_t count);  // [.., key heads, count]
// A gradient is of keys that lie as the queries do.
void check_trained_layout(const char* op, std::string_view layout, std::string_view key_layout);
void check_best_keys_backward(const IndexRows& of, const at::Tensor& dy, const at::Tensor& indices,
                              const SparseLengths& lengths, std::string_view layout, const Window& window);

struct ListedLengths {
  at::OptionalSymIntArrayRef query, key;
};
void check_index_sums(const IndexRows& of, const ListedLengths& lengths, std::string_view layout, const Window& window);
Sizes index_sum_sizes(const at::Tensor& query, const at::Tensor& key, std::string_view layout);

struct MainAttention {
  const at::Tensor &query, &key, &largest, &sum;
  const OptionalTensor &query_rope, &key_rope;
};
void check_index_loss(const char* op, const MainAttention& main, const IndexRows& of, const OptionalTensor& indices,
                      const OptionalTensor& largest_index, const OptionalTensor& sum_index,
                      const ListedLengths& lengths, std::string_view layout, const Window& window);

}  // namespace npu::ops
