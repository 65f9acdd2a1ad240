#include "csrc/core/storage.h"

#include <algorithm>

#include "csrc/cann/error.h"
#include "csrc/core/NPUStorageImpl.h"
#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/core/recovery.h"
#include "csrc/core/stream.h"

namespace npu {

void resize_storage(const c10::Storage& storage, size_t bytes) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
  const NPUGuard guard(impl->device().index());
  c10::DataPtr grown = device_allocator()->allocate(bytes);
  const size_t kept = std::min(bytes, impl->nbytes());
  if (kept) {
    NPU_CHECK(cann::acl().aclrtMemcpyAsync(grown.get(), bytes, impl->data(), kept, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                           current_raw_stream()));
    carry_safety(impl->data_ptr(), grown);
  }
  impl->set_data_ptr_noswap(std::move(grown));
  impl->set_nbytes(bytes);
  if (auto* const described = dynamic_cast<torch_npu::NPUStorageImpl*>(impl)) {
    const caffe2::TypeMeta type = described->npu_desc_.data_type_;
    described->describe({static_cast<int64_t>(bytes / type.itemsize())}, {1}, type);
  }
}

}  // namespace npu
