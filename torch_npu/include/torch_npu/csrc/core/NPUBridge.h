// From a tensor to the description of its storage. Who includes it: extensions that read or write formats.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch_npu/csrc/core/NPUStorageImpl.h"

namespace torch_npu {

// For npu tensors that this library, PyTorch or from_blob of this library made: all have such a storage. None of these throws.
struct NPUBridge {
  static NPUStorageImpl* GetNpuStorageImpl(c10::StorageImpl* storage) { return static_cast<NPUStorageImpl*>(storage); }
  static NPUStorageImpl* GetNpuStorageImpl(c10::Storage&& storage) {
    return GetNpuStorageImpl(storage.unsafeGetStorageImpl());
  }
  static NPUStorageImpl* GetNpuStorageImpl(const at::Tensor& tensor) {
    return GetNpuStorageImpl(tensor.storage().unsafeGetStorageImpl());
  }
  static NPUStorageDesc& GetNpuStorageImplDesc(const at::Tensor& tensor) {
    return GetNpuStorageImpl(tensor)->npu_desc_;
  }
};

}  // namespace torch_npu
