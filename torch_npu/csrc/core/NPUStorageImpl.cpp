#include "csrc/core/NPUStorageImpl.h"

namespace torch_npu {
namespace {

constexpr size_t kPicture = 4;  // dimensions of a batch of pictures, which CANN calls NCHW

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

void NPUStorageImpl::describe(c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta type) {
  npu_desc_.base_sizes_.assign(sizes.begin(), sizes.end());
  npu_desc_.base_strides_.assign(strides.begin(), strides.end());
  npu_desc_.storage_sizes_ = npu_desc_.base_sizes_;
  npu_desc_.origin_format_ = sizes.size() == kPicture ? ACL_FORMAT_NCHW : ACL_FORMAT_ND;
  npu_desc_.npu_format_ = ACL_FORMAT_ND;
  npu_desc_.data_type_ = type;
}

}  // namespace torch_npu
