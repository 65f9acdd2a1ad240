#include "csrc/core/empty.h"

#include <ATen/EmptyTensor.h>

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

}  // namespace npu
