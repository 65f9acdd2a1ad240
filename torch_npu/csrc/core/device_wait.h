// The plugin's own waits for a device: a cache that gives memory back, memory without a cache, older profilers, the process's end.
// They are limited by ACL_DEVICE_SYNC_TIMEOUT, else by ACL_STREAM_TIMEOUT. What it is not: a wait that a program asks for
// (synchronize_device in device.h), which heeds the first alone.
#pragma once

#include <c10/core/Device.h>

namespace npu {

// Throws the error of the device's work; at the limit, one that names the operator that still runs.
void wait_for_device(c10::DeviceIndex index);

// The same of the device that CANN has on this thread, and returns CANN's status.
int wait_for_bound_device();

}  // namespace npu
