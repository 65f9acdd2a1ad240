// Tensors over device memory that somebody else owns: at::from_blob for the npu. Sizes, strides and offset count elements. The memory must
// hold them and stay until `deleter` is called, or without one as long as a tensor shows it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace at_npu::native {

using Deleter = std::function<void(void*)>;

// The device is `device`, else the options', else the memory's, which CANN is asked for. c10::Error for memory that is not a device's.
TORCH_NPU_API at::Tensor from_blob(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t storage_offset,
                                   const Deleter& deleter, const at::TensorOptions& options = {},
                                   std::optional<at::Device> device = std::nullopt);

TORCH_NPU_API at::Tensor from_blob(void* data, at::IntArrayRef sizes, const at::TensorOptions& options = {},
                                   std::optional<at::Device> device = std::nullopt);
TORCH_NPU_API at::Tensor from_blob(void* data, at::IntArrayRef sizes, const Deleter& deleter,
                                   const at::TensorOptions& options = {},
                                   std::optional<at::Device> device = std::nullopt);
inline at::Tensor from_blob(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, const Deleter& deleter,
                            const at::TensorOptions& options = {}, std::optional<at::Device> device = std::nullopt) {
  return from_blob(data, sizes, strides, 0, deleter, options, device);
}
inline at::Tensor from_blob(void* data, at::IntArrayRef sizes, at::IntArrayRef strides,
                            const at::TensorOptions& options = {}, std::optional<at::Device> device = std::nullopt) {
  return from_blob(data, sizes, strides, 0, Deleter(), options, device);
}

}  // namespace at_npu::native
