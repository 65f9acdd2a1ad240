// What a device is: its name, size and cores. Who calls it: csrc/python.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <utility>

#include "csrc/cann/export.h"

namespace npu {

struct DeviceProperties {
  std::string name;  // "Ascend910B3"
  size_t total_memory = 0;
  int64_t cube_cores = 0;
  int64_t vector_cores = 0;
  int64_t l2_cache = 0;
  std::string uuid;     // "" where CANN does not tell
  std::string pci_bus;  // "0000:c1:00.0", "" where CANN does not tell
};

NPU_API std::string soc_name();
// Binds the device's context.
NPU_API DeviceProperties device_properties(c10::DeviceIndex index);
NPU_API bool can_access_peer(c10::DeviceIndex device, c10::DeviceIndex peer);
// Percent of time the cube cores were busy.
NPU_API int utilization(c10::DeviceIndex index);
// Stretches of the device's memory with errors that the hardware could not correct (aclrtGetMemUceInfo). Throws where CANN cannot say.
NPU_API size_t memory_errors(c10::DeviceIndex index);
// Free and total bytes of the device.
NPU_API std::pair<size_t, size_t> memory_info(c10::DeviceIndex index);

}  // namespace npu
