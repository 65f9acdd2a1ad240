// Memory and tensors for extensions: core/npu/NPUCachingAllocator.h, core/npu/CachingHostAllocator.h, utils/OpPreparation.h,
// common/from_blob.h.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/TensorImpl.h>

#include "csrc/core/NPUStorageImpl.h"
#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/pinned.h"
#include "csrc/core/stream.h"
#include "torch_npu/csrc/aten/common/from_blob.h"
#include "torch_npu/csrc/core/npu/CachingHostAllocator.h"
#include "torch_npu/csrc/core/npu/NPUCachingAllocator.h"
#include "torch_npu/csrc/framework/utils/OpPreparation.h"

namespace c10_npu::NPUCachingAllocator {

std::atomic<c10::DeviceAllocator*> allocator{npu::device_allocator()};

void* raw_alloc(size_t bytes) { return npu::memory::raw_allocate(bytes, npu::current_stream()); }
void raw_delete(void* pointer) { npu::memory::raw_free(pointer); }

}  // namespace c10_npu::NPUCachingAllocator

namespace at_npu::native {

c10::Allocator* getCachingHostAllocator() { return npu::pinned_allocator(); }

aclError CachingHostAllocator_recordEvent(void* pointer, void* context, c10_npu::NPUStream stream) {
  return npu::pinned_allocator()->record_event(pointer, context, stream.unwrap()) ? ACL_ERROR_NONE
                                                                                  : ACL_ERROR_INVALID_PARAM;
}

at::Tensor OpPreparation::apply_tensor_without_format(const at::Tensor& source) {
  return apply_tensor_without_format(source, source.sizes());
}
at::Tensor OpPreparation::apply_tensor_without_format(const at::Tensor& source, c10::IntArrayRef sizes) {
  return apply_tensor_without_format(sizes, source.options());
}
at::Tensor OpPreparation::apply_tensor_without_format(c10::IntArrayRef sizes, const c10::TensorOptions& options) {
  const std::optional<at::Device> device = options.device_opt();
  if (device) torch_npu::utils::torch_check_npu(*device);
  const npu::NPUGuard guard(device && device->has_index() ? device->index() : npu::current_device());
  return npu::empty(sizes, c10::typeMetaToScalarType(options.dtype()));
}

at::Tensor from_blob(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t storage_offset,
                     const Deleter& deleter, const at::TensorOptions& options, std::optional<at::Device> device) {
  TORCH_CHECK(data || c10::multiply_integers(sizes) == 0, "npu: from_blob was given a null pointer for sizes ", sizes);
  at::Device target = device                                                 ? *device
                      : options.has_device() && options.device().has_index() ? options.device()
                                                                             : at::Device(at::kPrivateUse1);
  if (!target.has_index()) {
    target = data ? at::globalContext().getDeviceFromPtr(data, at::kPrivateUse1)
                  : at::Device(at::kPrivateUse1, npu::current_device());
  }
  torch_npu::utils::torch_check_npu(target);
  npu::check_device(target.index());
  const caffe2::TypeMeta type = options.dtype();
  const auto offset = static_cast<size_t>(storage_offset);
  const size_t bytes = strides.data() ? at::detail::computeStorageNbytes(sizes, strides, type.itemsize(), offset)
                                      : at::detail::computeStorageNbytesContiguous(sizes, type.itemsize(), offset);
  c10::DataPtr memory =
      deleter ? c10::InefficientStdFunctionContext::makeDataPtr(data, deleter, target) : c10::DataPtr(data, target);
  auto storage = c10::make_intrusive<torch_npu::NPUStorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                                std::move(memory), nullptr, false);
  torch_npu::NPUStorageImpl* const described = storage.get();
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                             c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
  c10::TensorImpl* const impl = made.unsafeGetTensorImpl();
  if (strides.data()) {
    impl->set_sizes_and_strides(sizes, strides, storage_offset);
  } else {
    impl->generic_set_sizes_contiguous(sizes);
    impl->set_storage_offset(storage_offset);
  }
  described->describe(made.sizes(), made.strides(), type);
  return made;
}
at::Tensor from_blob(void* data, at::IntArrayRef sizes, const at::TensorOptions& options,
                     std::optional<at::Device> device) {
  return from_blob(data, sizes, at::IntArrayRef(), 0, Deleter(), options, device);
}
at::Tensor from_blob(void* data, at::IntArrayRef sizes, const Deleter& deleter, const at::TensorOptions& options,
                     std::optional<at::Device> device) {
  return from_blob(data, sizes, at::IntArrayRef(), 0, deleter, options, device);
}

}  // namespace at_npu::native
