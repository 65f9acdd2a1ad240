#include "csrc/core/empty.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>

#include "csrc/core/allocator.h"

namespace npu {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

}  // namespace

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, std::optional<at::MemoryFormat> memory_format) {
  return at::Tensor(at::detail::empty_generic(sizes, device_allocator(), kKeys, dtype, memory_format));
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, device_allocator(), kKeys, dtype));
}

at::Tensor empty_like(const at::Tensor& tensor, std::optional<at::ScalarType> dtype) {
  const at::ScalarType type = dtype.value_or(tensor.scalar_type());
  if (tensor.is_contiguous()) return empty(tensor.sizes(), type);
  if (tensor.is_non_overlapping_and_dense()) return empty_strided(tensor.sizes(), tensor.strides(), type);
  return empty_strided(tensor.sizes(), at::infer_dense_strides(tensor.sizes(), tensor.strides()), type);
}

}  // namespace npu
