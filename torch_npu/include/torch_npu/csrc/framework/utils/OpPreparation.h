// Outputs for operators: contiguous, not initialized, on the npu.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch_npu/csrc/core/npu/DeviceUtils.h"

namespace at_npu::native {

class TORCH_NPU_API OpPreparation {
 public:
  // The sizes, dtype and device of `source`, or other sizes. c10::Error where it is not on the npu.
  static at::Tensor apply_tensor_without_format(const at::Tensor& source);
  static at::Tensor apply_tensor_without_format(const at::Tensor& source, c10::IntArrayRef sizes);
  // The dtype of the options, PyTorch's default where there is none; the current npu where they name no device.
  static at::Tensor apply_tensor_without_format(c10::IntArrayRef sizes, const c10::TensorOptions& options);
};

}  // namespace at_npu::native
