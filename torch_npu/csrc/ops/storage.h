// Sizes and storage of npu tensors: resize, set_, shared memory. What it is not: an allocator (csrc/core) or a view (view.cpp).
// Who calls it: this room, for `out=` tensors, and PyTorch through resize_ and set_.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu {

// Gives `self` these sizes (contiguous unless strides are given), growing its storage if it is too small. Keeps what the storage held.
void resize_tensor(const at::Tensor& self, at::IntArrayRef sizes, at::OptionalIntArrayRef strides = std::nullopt);
// The same for an `out=` tensor: warns, as PyTorch does, when a tensor that held something changes its shape.
void resize_out(const at::Tensor& out, at::IntArrayRef sizes);

// Do two tensors share memory? A tensor itself does not count. Shared memory is one storage, or begins at one address: a few loads, where
// is_alias_of() is a call, for each operand of each operator. False without a storage (undefined, sparse).
inline bool may_share(const at::Tensor& written, const at::Tensor& read) {
  if (written.is_same(read)) return false;
  c10::StorageImpl* const mine = written.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  c10::StorageImpl* const other = read.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (!mine || !other) return false;
  if (mine == other) return true;
  const void* const begin = other->_mutable_data_ptr_no_checks().get();
  return begin && begin == mine->_mutable_data_ptr_no_checks().get() && written.is_alias_of(read);
}

}  // namespace npu
