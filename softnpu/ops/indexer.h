// The indexer of DeepSeek's sparse attention: which keys a query attends, and the loss it is trained with. Sums are fp32. Who calls it:
// expressions of ops/aclnn.yaml that name it as their header; check_… in phase one.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "softnpu/ops/absent.h"
#include "softnpu/ops/sparse_rows.h"

namespace softnpu::ops::kernels {

// Layouts and lengths, and which keys are hidden: mode 0 none, 3 causal from the right bottom. A band of tokens before and after is not
// implemented; the vendor's plugin passes the largest number for none.
struct SparseRows {
  const std::optional<at::Tensor>&query_lengths = kAbsentOperand, &key_lengths = kAbsentOperand,
        &table = kAbsentOperand;
  at::IntArrayRef query_list = {}, key_list = {};  // the same as numbers, of other functions
  std::string_view layout = {}, key_layout = {};
  int64_t mode = 0, before = 0, after = 0;

  RowLayout form() const { return {layout, key_layout.empty() ? layout : key_layout, table}; }
  KeyRows of(const RowLayout& form, const at::Tensor& query, const at::Tensor& key) const;
  RowLayout checked(const at::Tensor& query) const;
  bool causal() const { return mode == 3; }
};

struct IndexRows {
  const at::Tensor &query, &key, &weights;  // [batch, rows, heads, columns], keys, and a number a row and head
  const at::Tensor* query_scale = nullptr;  // of quantized operands, a number a row and head
  const at::Tensor* key_scale = nullptr;
};
void check_best_keys(const IndexRows& of, const SparseRows& rows, int64_t count, const at::Tensor& index);
void best_keys(const IndexRows& of, const SparseRows& rows, int64_t count, at::Tensor& index, at::Tensor* values);

struct IndexGradients {
  at::Tensor &query, &key, &weights;
};
void check_best_keys_backward(const IndexRows& of, const SparseRows& rows, const at::Tensor& dy,
                              const at::Tensor& indices, int64_t heads, const IndexGradients& made);
void best_keys_backward(const IndexRows& of, const SparseRows& rows, const at::Tensor& dy, const at::Tensor& indices,
                        const IndexGradients& made);

// The largest score of each row, and the sum of exp(score - largest): [batch, key heads, rows].
void check_index_sums(const IndexRows& of, const SparseRows& rows, const at::Tensor& largest, const at::Tensor& sum);
void index_sums(const IndexRows& of, const SparseRows& rows, at::Tensor& largest, at::Tensor& sum);

// Gradients of the indexer's operands and the loss: the divergence of its distribution from that of attention, over all heads.
struct MainAttention {
  const at::Tensor &query, &key, &largest, &sum;
  const std::optional<at::Tensor>&query_rope = kAbsentOperand, &key_rope = kAbsentOperand;
  double scale = 1;
};
struct IndexLoss {
  const std::optional<at::Tensor>&indices = kAbsentOperand, &largest = kAbsentOperand, &sum = kAbsentOperand;
};
void check_index_loss(const MainAttention& main, const IndexRows& of, const IndexLoss& loss, const SparseRows& rows,
                      const IndexGradients& made, const at::Tensor& out);
void index_loss(const MainAttention& main, const IndexRows& of, const IndexLoss& loss, const SparseRows& rows,
                const IndexGradients& made, at::Tensor& out);

}  // namespace softnpu::ops::kernels
