// Tensors of a collective as the one stretch of memory that HCCL takes, and back: pieces, counts, displacements.
// Every function that copies queues on the current stream.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace npu::distributed {

inline uint64_t count(const at::Tensor& t) { return static_cast<uint64_t>(t.numel()); }

struct Counts {  // and displacements, in elements
  std::vector<uint64_t> counts, displacements;
  uint64_t total = 0;
  void add(uint64_t n);
};
Counts counts_of(const std::vector<at::Tensor>& tensors);
bool all_equal(const Counts& counts);
// Of all_to_all_single: rows of `tensor` for each rank; none given means evenly.
Counts counts_of_splits(const std::vector<int64_t>& splits, const at::Tensor& tensor, int ranks, const char* what);

// A tensor of `model`'s type and device with `n` elements.
at::Tensor empty_like_flat(const at::Tensor& model, uint64_t n);
// The contents one behind the other; `model` says type and device where all are empty.
at::Tensor flat(const std::vector<at::Tensor>& tensors, const at::Tensor& model);
void unflatten(const at::Tensor& from, const std::vector<at::Tensor>& to);
// What brings `buffer` to `tensor`, nothing where they are the same memory.
std::function<void()> copy_back(const at::Tensor& buffer, const at::Tensor& tensor);

// Throws where a tensor of the list has not the other's type.
void check_type(const at::Tensor& tensor, const at::Tensor& other);

}  // namespace npu::distributed
