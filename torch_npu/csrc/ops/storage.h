// Sizes and storage of npu tensors: resize, set_, shared memory. What it is not: an allocator (csrc/core) or a view (view.cpp).
// Who calls it: this room, for `out=` tensors, and PyTorch through resize_ and set_.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu {

// Gives `self` these sizes (contiguous unless strides are given), growing its storage if it is too small. Keeps what the storage held.
void resize_tensor(const at::Tensor& self, at::IntArrayRef sizes, at::OptionalIntArrayRef strides = std::nullopt);
// The same for an `out=` tensor: warns, as PyTorch does, when a tensor that held something changes its shape.
void resize_out(const at::Tensor& out, at::IntArrayRef sizes);

// Where the tensor's storage begins. Null without a storage (undefined, sparse), and where it has no bytes.
inline const void* memory_of(const at::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  return storage ? storage->_mutable_data_ptr_no_checks().get() : nullptr;
}
// Do two tensors share memory? Shared memory begins at one address for both: two loads, where is_alias_of() is a call, for each operand of
// each operator. A tensor itself does not count.
inline bool may_share(const at::Tensor& written, const at::Tensor& read) {
  if (written.is_same(read)) return false;
  const void* memory = memory_of(read);
  return memory && memory == memory_of(written) && written.is_alias_of(read);
}

}  // namespace npu
