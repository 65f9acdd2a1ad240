// The error of device_check.h.
#include "csrc/ops/device_check.h"

namespace npu::detail {

void device_mismatch(c10::Device first, c10::Device other) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", first, " and ",
              other, "!");
}

}  // namespace npu::detail
