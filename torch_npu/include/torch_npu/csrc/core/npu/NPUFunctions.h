// Devices in the vendor's names. The current device is the thread's; choosing one touches CANN not at all. All are thread-safe.
// Functions that return aclError return 0; what fails in them is a c10::Error, as in the others.
#pragma once

#include <acl/acl.h>
#include <c10/core/Device.h>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace c10_npu {

// 0 where there is none or CANN cannot be used (a warning says why, once).
TORCH_NPU_API c10::DeviceIndex device_count() noexcept;
// c10::Error instead of 0.
TORCH_NPU_API c10::DeviceIndex device_count_ensure_non_zero();
TORCH_NPU_API c10::DeviceIndex current_device();
// c10::Error names the index and what there is.
TORCH_NPU_API void set_device(c10::DeviceIndex device);
TORCH_NPU_API aclError GetDevice(int32_t* device);
TORCH_NPU_API aclError SetDevice(c10::DeviceIndex device);
// Does nothing for a negative index.
TORCH_NPU_API aclError MaybeSetDevice(c10::DeviceIndex device);
// Chooses a device unless the index is negative, and returns the former one.
TORCH_NPU_API int ExchangeDevice(int device);

// Wait for all work of the current device, or of the stream; throw what failed in it.
TORCH_NPU_API void device_synchronize();
TORCH_NPU_API void stream_synchronize(aclrtStream stream);

// torch.npu.set_sync_debug_mode: what a wait of the host for the device says.
enum class SyncDebugMode { L_DISABLED = 0, L_WARN = 1, L_ERROR = 2 };

class TORCH_NPU_API WarningState {
 public:
  void set_sync_debug_mode(SyncDebugMode mode);
  SyncDebugMode get_sync_debug_mode();
};

TORCH_NPU_API WarningState& warning_state();
// To be called before a wait that a program may not expect: a warning or a c10::Error by the mode.
TORCH_NPU_API void warn_or_error_on_sync();

}  // namespace c10_npu
