#include "csrc/core/empty.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <c10/core/TensorImpl.h>

#include "csrc/core/NPUStorageImpl.h"
#include "csrc/core/allocator.h"

namespace npu {
namespace {

using torch_npu::NPUStorageImpl;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// A tensor without sizes over new memory of that many bytes.
at::Tensor over_new_memory(size_t bytes, caffe2::TypeMeta type) {
  c10::DeviceAllocator* const allocator = device_allocator();
  auto storage = c10::make_intrusive<NPUStorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<int64_t>(bytes),
                                                     allocator->allocate(bytes), allocator, true);
  return at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), kKeys, type);
}

at::Tensor& described(at::Tensor& tensor) {
  auto* const storage = static_cast<NPUStorageImpl*>(tensor.storage().unsafeGetStorageImpl());
  storage->describe(tensor.sizes(), tensor.strides(), tensor.dtype());
  return tensor;
}

caffe2::TypeMeta meta_of(at::ScalarType dtype) {
  if (C10_UNLIKELY(dtype == at::kComplexHalf)) {
    TORCH_WARN_ONCE("ComplexHalf support is experimental and many operators don't support it yet.");
  }
  return c10::scalarTypeToTypeMeta(dtype);
}

}  // namespace

// Flat: most operators call it, and PyTorch's short functions are calls otherwise.
__attribute__((flatten)) at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype,
                                          std::optional<at::MemoryFormat> memory_format) {
  at::detail::check_size_nonnegative(sizes);
  const caffe2::TypeMeta type = meta_of(dtype);
  at::Tensor made = over_new_memory(at::detail::computeStorageNbytesContiguous(sizes, type.itemsize()), type);
  c10::TensorImpl* const impl = made.unsafeGetTensorImpl();
  if (sizes.size() != 1 || sizes[0] != 0) impl->generic_set_sizes_contiguous(sizes);
  if (memory_format && *memory_format != at::MemoryFormat::Contiguous) impl->empty_tensor_restride(*memory_format);
  return described(made);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  at::detail::check_size_nonnegative(sizes);
  const caffe2::TypeMeta type = meta_of(dtype);
  at::Tensor made = over_new_memory(at::detail::computeStorageNbytes(sizes, strides, type.itemsize()), type);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return described(made);
}

at::Tensor empty_like(const at::Tensor& tensor, std::optional<at::ScalarType> dtype) {
  const at::ScalarType type = dtype.value_or(tensor.scalar_type());
  if (tensor.is_contiguous()) return empty(tensor.sizes(), type);
  if (tensor.is_non_overlapping_and_dense()) return empty_strided(tensor.sizes(), tensor.strides(), type);
  return empty_strided(tensor.sizes(), at::infer_dense_strides(tensor.sizes(), tensor.strides()), type);
}

}  // namespace npu
