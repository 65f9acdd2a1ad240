// Sizes and storage of npu tensors: resize, set_. What it is not: an allocator (csrc/core) or a view (view.cpp).
// Who calls it: this room, for `out=` tensors, and PyTorch through resize_ and set_.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu {

// Gives `self` these sizes (contiguous unless strides are given), growing its storage if it is too small. Keeps what the storage held.
void resize_tensor(const at::Tensor& self, at::IntArrayRef sizes, at::OptionalIntArrayRef strides = std::nullopt);
// The same for an `out=` tensor: warns, as PyTorch does, when a tensor that held something changes its shape.
void resize_out(const at::Tensor& out, at::IntArrayRef sizes);

}  // namespace npu
