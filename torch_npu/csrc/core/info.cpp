#include "csrc/core/info.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "csrc/cann/error.h"
#include "csrc/cann/later.h"
#include "csrc/core/device.h"
#include "csrc/core/lifecycle.h"

namespace npu {
namespace {

// An older CANN knows fewer attributes: 0 then.
int64_t attribute(c10::DeviceIndex index, aclrtDevAttr which) {
  int64_t value = 0;
  const cann::Api& acl = cann::acl();
  return acl.aclrtGetDeviceInfo && acl.aclrtGetDeviceInfo(index, which, &value) == 0 ? value : 0;
}

std::string formatted(const aclrtUuid& uuid) {
  std::string text;
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    char pair[3];
    std::snprintf(pair, sizeof(pair), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += pair;
  }
  return text;
}

}  // namespace

std::string soc_name() {
  const char* name = cann::acl().aclrtGetSocName();
  if (!name) {  // some versions of CANN know it only then
    initialize();
    name = cann::acl().aclrtGetSocName();
  }
  TORCH_CHECK(name, "npu: aclrtGetSocName does not know this device");
  return name;
}

std::pair<size_t, size_t> memory_info(c10::DeviceIndex index) {
  const NPUGuard guard(index);
  ensure_context();
  size_t free = 0;
  size_t total = 0;
  NPU_CHECK(cann::acl().aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  return {free, total};
}

DeviceProperties device_properties(c10::DeviceIndex index) {
  const NPUGuard guard(index);
  ensure_context();
  const cann::Api& acl = cann::acl();
  DeviceProperties p;
  p.name = soc_name();
  p.total_memory = memory_info(index).second;
  p.cube_cores = attribute(index, ACL_DEV_ATTR_CUBE_CORE_NUM);
  if (!p.cube_cores) p.cube_cores = attribute(index, ACL_DEV_ATTR_AICORE_CORE_NUM);
  p.vector_cores = attribute(index, ACL_DEV_ATTR_VECTOR_CORE_NUM);
  p.l2_cache = attribute(index, ACL_DEV_ATTR_L2_CACHE_SIZE);
  aclrtUuid uuid{};
  if (acl.aclrtDeviceGetUuid && acl.aclrtDeviceGetUuid(index, &uuid) == 0) p.uuid = formatted(uuid);
  char bus[32] = {};
  if (acl.aclrtDeviceGetPCIBusId && acl.aclrtDeviceGetPCIBusId(index, bus, sizeof(bus)) == 0) p.pci_bus = bus;
  return p;
}

bool can_access_peer(c10::DeviceIndex device, c10::DeviceIndex peer) {
  check_device(device);
  check_device(peer);
  if (device == peer) return false;
  const NPUGuard guard(device);
  ensure_context();
  int32_t can = 0;
  if (!cann::acl().aclrtDeviceCanAccessPeer) return false;
  NPU_CHECK(cann::acl().aclrtDeviceCanAccessPeer(&can, device, peer));
  return can != 0;
}

size_t memory_errors(c10::DeviceIndex index) {
  check_device(index);
  const NPUGuard guard(index);
  ensure_context();
  const auto ask = cann::later().aclrtGetMemUceInfo;
  TORCH_CHECK_NOT_IMPLEMENTED(ask, "npu: this CANN has no aclrtGetMemUceInfo");
  std::vector<aclrtMemUceInfo> found(128);  // CANN's own most
  size_t count = 0;
  NPU_CHECK(ask(index, found.data(), found.size(), &count));
  return count;
}

int utilization(c10::DeviceIndex index) {
  const NPUGuard guard(index);
  ensure_context();
  TORCH_CHECK_NOT_IMPLEMENTED(cann::acl().aclrtGetDeviceUtilizationRate,
                              "npu: this CANN has no aclrtGetDeviceUtilizationRate");
  aclrtUtilizationInfo info{};
  NPU_CHECK(cann::acl().aclrtGetDeviceUtilizationRate(index, &info));
  return info.cubeUtilization;
}

}  // namespace npu
