// The storage of an npu tensor: c10's, and behind it what CANN would know of its memory. Extensions read it, through the bridge of
// torch_npu/include or with a copy of these declarations: names, types and order of the members are part of the contract. Values are ND
// whatever npu_format_ says.
// A description changes with its storage (resize_, npu_format_cast_): like a tensor's sizes, not by two threads at once.
// Who makes one: empty.cpp, sharing.cpp, extensions' from_blob, and PyTorch, for a storage without a tensor.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/typeid.h>

#include "acl/types.h"
#include "torch_npu/csrc/cann/export.h"

namespace torch_npu {

struct NPUStorageDesc {
  struct use_byte_size_t {};

  c10::SmallVector<int64_t, 5> base_sizes_;  // of the tensor the memory was made for
  c10::SmallVector<int64_t, 5> base_strides_;
  c10::SmallVector<int64_t, 5> storage_sizes_;  // with the padding of npu_format_, which is reported and not allocated
  int64_t base_offset_ = 0;
  use_byte_size_t base_dtype_;
  aclFormat origin_format_ = ACL_FORMAT_UNDEFINED;  // ND or NCHW, by the number of dimensions
  aclFormat npu_format_ = ACL_FORMAT_ND;
  caffe2::TypeMeta data_type_ = caffe2::TypeMeta::Make<uint8_t>();
};

struct NPU_API NPUStorageImpl : c10::StorageImpl {
  // Without a description: one of the two below follows. Not in the constructor, for a tensor's memory is described once its strides are known.
  using c10::StorageImpl::StorageImpl;
  ~NPUStorageImpl() override;

  // A new tensor's memory, in the format ND. As many strides as sizes.
  void describe(c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta type) {
    constexpr size_t kPicture = 4;  // dimensions of a batch of pictures, which CANN calls NCHW
    const size_t n = sizes.size();
    for (auto* numbers : {&npu_desc_.base_sizes_, &npu_desc_.base_strides_, &npu_desc_.storage_sizes_})
      numbers->resize_for_overwrite(n);
    int64_t* const base_sizes = npu_desc_.base_sizes_.data();
    int64_t* const base_strides = npu_desc_.base_strides_.data();
    int64_t* const storage_sizes = npu_desc_.storage_sizes_.data();
    for (size_t i = 0; i < n; i++) {  // a few numbers, for each new tensor: one loop
      base_sizes[i] = storage_sizes[i] = sizes[i];
      base_strides[i] = strides[i];
    }
    npu_desc_.origin_format_ = n == kPicture ? ACL_FORMAT_NCHW : ACL_FORMAT_ND;
    npu_desc_.npu_format_ = ACL_FORMAT_ND;
    npu_desc_.data_type_ = type;
  }
  void describe_as_bytes() { describe({static_cast<int64_t>(nbytes())}, {1}, caffe2::TypeMeta::Make<uint8_t>()); }

  NPUStorageDesc npu_desc_;
};

}  // namespace torch_npu
