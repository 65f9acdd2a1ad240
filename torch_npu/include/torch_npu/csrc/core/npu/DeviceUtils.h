// Is this of the npu? Who includes it: extensions that take tensors of several devices.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace at_npu::key {

inline constexpr c10::DeviceType NativeDeviceType = c10::DeviceType::PrivateUse1;

}  // namespace at_npu::key

namespace torch_npu::utils {

inline c10::DeviceType get_npu_device_type() { return c10::DeviceType::PrivateUse1; }

inline bool is_npu(const at::Device& device) { return device.type() == c10::DeviceType::PrivateUse1; }
inline bool is_npu(const at::TensorOptions& options) { return is_npu(options.device()); }
inline bool is_npu(const at::Tensor& tensor) { return tensor.is_privateuseone(); }

// c10::Error that names what was given.
inline void torch_check_npu(const at::Device& device) {
  TORCH_CHECK(is_npu(device), "Expected NPU tensor, please check whether the input tensor device is correct: got ",
              device);
}
inline void torch_check_npu(const at::TensorOptions& options) { torch_check_npu(options.device()); }
inline void torch_check_npu(const at::Tensor& tensor) { torch_check_npu(tensor.device()); }

// Initializes the npu if the device is one. What calls CANN's C functions by itself before the first tensor needs it. c10::Error where no
// CANN can be used, and in a forked child.
TORCH_NPU_API void maybe_initialize_npu(const at::Device& device);
inline void maybe_initialize_npu(const at::TensorOptions& options) { maybe_initialize_npu(options.device()); }

}  // namespace torch_npu::utils
