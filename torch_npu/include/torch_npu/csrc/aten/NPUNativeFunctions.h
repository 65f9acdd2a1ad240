// Names that older extensions write as NPUNativeFunctions::…; the functions are those of core/npu/NPUFormat.h. The NPU's own operators
// are torch.ops.npu.*, in C++ by PyTorch's dispatcher.
#pragma once

#include "torch_npu/csrc/core/npu/NPUFormat.h"

namespace at_npu::native {

struct NPUNativeFunctions {
  static int64_t get_npu_format(const at::Tensor& self) { return native::get_npu_format(self); }
  static at::Tensor npu_format_cast(const at::Tensor& self, int64_t acl_format) {
    return native::npu_format_cast(self, acl_format);
  }
};

}  // namespace at_npu::native
