// The layouts of attention over chosen keys: rows of batches, of packed sequences and of paged caches, and the refusal of lengths and tables
// that do not go with them. What it is not: the computation (the device's kernels). Who uses it: indexer, sparse_attention, nsa.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

// Queries are "BSND" or "TND", keys the same or "PA_BSND", blocks that a table names.
class RowLayout {
 public:
  RowLayout(const char* op, std::string_view query, std::string_view key, const OptionalTensor& table);
  int64_t query_dims() const { return packed_ ? 3 : 4; }
  int64_t key_dims() const { return packed_ && !table_ ? 3 : 4; }
  bool packed() const { return packed_; }
  // Sequences that are not packed or in pages are as many in both.
  void check_batch(const at::Tensor& query, const at::Tensor& key) const;
  // Lengths: of each sequence, or running ends of packed ones; all rows where they are absent.
  void check_lengths(const at::Tensor& query, const OptionalTensor& query_lengths,
                     const OptionalTensor& key_lengths) const;
  // Lengths that are known at the call: the last ends are those of the tensors.
  void check_lengths(const at::Tensor& query, const at::Tensor& key, at::OptionalSymIntArrayRef query_lengths,
                     at::OptionalSymIntArrayRef key_lengths) const;

 private:
  const char* op_;
  bool packed_;
  OptionalTensor table_;
};

int64_t known(const at::Tensor& t, int64_t dim);  // a size that the checks depend on

// The heads of keys divide those of queries, which have their columns.
void check_heads(const char* op, const at::Tensor& query, const at::Tensor& key, int64_t dim);

// The sizes without the last `count`, and some more.
Sizes with_last(const at::Tensor& t, int64_t count, std::initializer_list<c10::SymInt> more);

}  // namespace npu::ops
