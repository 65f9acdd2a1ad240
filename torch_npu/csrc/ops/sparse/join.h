// Which entries of two sparse tensors stand in one place: keys of places, sorted and looked up, on the device. What it is not:
// arithmetic; the other files of this folder have that. Who calls it: they.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::sparse {

// Of each column of `indices` (dims x n), its place in a dense tensor of the first sizes: n int64.
at::Tensor keys(const at::Tensor& indices, at::IntArrayRef sizes);

// For each key, where it stands in `sorted` (any place where it does not), and whether it does.
struct Found {
  at::Tensor place, is;
};
Found look_up(const at::Tensor& sorted, const at::Tensor& keys);

// All pairs of positions (i, j) with left[i] == right[j], in the order of i. Reads their number back.
struct Pairs {
  at::Tensor left, right;
};
Pairs join(const at::Tensor& left, const at::Tensor& right);

// values, with their first dimension's entries multiplied by 0 or 1 (or a number) each.
at::Tensor weighted(const at::Tensor& values, const at::Tensor& weight);

// A COO tensor of these parts, with the sizes and options of `like` but the values' type.
at::Tensor coo(const at::Tensor& like, at::IntArrayRef sizes, const at::Tensor& indices, const at::Tensor& values,
               bool coalesced);

// Gives a result to a COO tensor `out`, cast to its type.
void give(const at::Tensor& result, const at::Tensor& out);

// Does the sum of this type hold in the type of the result?
void check_cast(const char* op, at::ScalarType common, at::ScalarType out);

}  // namespace npu::sparse
