// How busy each device is: the share of an interval in which executors of any process of the machine worked on it (busy.h).
// Who uses it: aclrtGetDeviceUtilizationRate, softnpu/dcmi, npu-smi.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/registry_view.h"

namespace softnpu {

class Utilization {
 public:
  // Percent of the device (physical id), rounded up. The interval ends now and began at the previous question, if that is 20 ms to 1 s
  // ago; a younger one's answer still holds, and without one the call takes a sample of `sample_ms`. Throws what read_registry throws.
  int percent(int device, int sample_ms);
  // For who knows when the interval began.
  static int percent(int device, const RegistryView& before, const RegistryView& after) noexcept;

 private:
  std::mutex mutex_;  // also while a sample is taken: who asks meanwhile gets its answer
  RegistryView last_;
  std::array<int, kMaxDevices> percent_ = {};
};

}  // namespace softnpu
