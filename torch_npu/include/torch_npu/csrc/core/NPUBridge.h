// From a tensor to the description of its storage. Who includes it: extensions that read or write formats.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch_npu/csrc/core/NPUStorageImpl.h"

namespace torch_npu {

// For npu tensors, which have such a storage but where PyTorch put a tensor around memory of others (DLPack, at::from_blob): c10::Error there.
struct NPUBridge {
  static NPUStorageImpl* GetNpuStorageImpl(c10::StorageImpl* storage) {
    auto* const described = dynamic_cast<NPUStorageImpl*>(storage);
    TORCH_CHECK(described,
                "the storage has no description of a format: PyTorch made it around memory of others (DLPack, "
                "at::from_blob), or it is none of an npu's; a clone() on the npu has one");
    return described;
  }
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
