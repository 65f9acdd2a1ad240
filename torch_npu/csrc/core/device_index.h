// Devices and streams as callers name them, by numbers of their own width. Past the type's range a number would be another device's: it is
// refused. Who uses it: Python, the C functions of compiled models.
#pragma once

#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include <limits>

#include "csrc/core/device.h"

namespace npu {

// Which devices there are is not asked here: a negative number is the current device to those who allow that.
inline c10::DeviceIndex device_index(int64_t number) {
  using Limits = std::numeric_limits<c10::DeviceIndex>;
  TORCH_CHECK(number >= Limits::min() && number <= Limits::max(), "npu: invalid device index ", number);
  return static_cast<c10::DeviceIndex>(number);
}

inline c10::DeviceIndex existing_device(int64_t number) {
  const c10::DeviceIndex device = device_index(number);
  check_device(device);
  return device;
}

inline c10::Stream stream_of(int64_t id, int64_t device) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, existing_device(device)), id);
}

}  // namespace npu
