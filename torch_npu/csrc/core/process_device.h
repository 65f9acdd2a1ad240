// The one device that a process is known by, for threads that act for the program without having been told where: those of
// torch.distributed. A thread's own device is device.h's.
// Who calls it: torch.npu.set_device (python/device.cpp) and distributed/connect.cpp. Thread-safe.
#pragma once

#include "csrc/core/device.h"

namespace npu {

// set_device, said by the program. The engine's threads and guards say set_device: it tells nothing about the process.
NPU_API void choose_device(c10::DeviceIndex index);

// Chosen last (by one thread), else the only one used, else the only one there is; -1 where nothing of that holds, as where
// threads are ranks and chose one each.
NPU_API c10::DeviceIndex process_device() noexcept;

}  // namespace npu
