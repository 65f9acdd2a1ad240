#include "csrc/core/NPUStorageImpl.h"

namespace torch_npu {
namespace {

c10::intrusive_ptr<c10::StorageImpl> make(c10::StorageImpl::use_byte_size_t, c10::SymInt bytes, c10::DataPtr data,
                                          c10::Allocator* allocator, bool resizable) {
  if (!data && allocator) data = allocator->allocate(bytes.expect_int());
  auto made = c10::make_intrusive<NPUStorageImpl>(c10::StorageImpl::use_byte_size_t(), std::move(bytes),
                                                  std::move(data), allocator, resizable);
  made->describe_as_bytes();
  return made;
}

// What PyTorch makes by itself (UntypedStorage, torch.load) has a description too.
const bool registered = (c10::SetStorageImplCreate(c10::DeviceType::PrivateUse1, &make), true);

}  // namespace

NPUStorageImpl::~NPUStorageImpl() = default;

}  // namespace torch_npu
