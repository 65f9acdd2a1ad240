// Attention over a choice of keys by index, with its gradients, and of keys in bytes; by blocks of a mask, and over two sets of keys. Who calls
// it: expressions of ops/aclnn.yaml that name it as their header; check_… in phase one.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "softnpu/ops/indexer.h"

namespace softnpu::ops::kernels {

struct SparseHeads {
  const at::Tensor &query, &key;
  const std::optional<at::Tensor>&value, &query_rope = kAbsentOperand, &key_rope = kAbsentOperand;
  const at::Tensor& indices;
  double scale;
  int64_t block;
  const std::optional<at::Tensor>& sinks = kAbsentOperand;
};
struct
    SparseSums {  // [batch, key heads, rows, group], of packed rows without batch; without elements where they are not wanted
  const at::Tensor &largest, &sum;
};
void check_sparse_attention(const SparseHeads& of, const SparseRows& rows, int64_t mode, bool with_sums,
                            const at::Tensor& out, const SparseSums& sums);
void sparse_attention(const SparseHeads& of, const SparseRows& rows, at::Tensor& out, at::Tensor& largest,
                      at::Tensor& sum);

struct SparseGradients {  // those of absent operands are null
  at::Tensor &query, &key, &value, &query_rope, &key_rope;
};
void check_sparse_attention_backward(const SparseHeads& of, const SparseRows& rows, const at::Tensor& grad,
                                     const SparseSums& sums, const SparseGradients& made);
// Without elements in `sums` they are computed again.
void sparse_attention_backward(const SparseHeads& of, const SparseRows& rows, const at::Tensor& grad,
                               const SparseSums& sums, const SparseGradients& made);

// Keys and values whose rows are 8-bit numbers, then the rotated columns in the type of query and a float32 scale for each `tile` of the former.
struct RowsOfBytes {
  int64_t tile, rotated;
};
struct BytesModes {
  int64_t key, value, attention, scales;
};
void check_sparse_attention_of_bytes(const SparseHeads& of, const RowsOfBytes& bytes, const BytesModes& modes,
                                     const SparseRows& rows, const at::Tensor& out);
void sparse_attention_of_bytes(const SparseHeads& of, const RowsOfBytes& bytes, const SparseRows& rows,
                               at::Tensor& out);

}  // namespace softnpu::ops::kernels
