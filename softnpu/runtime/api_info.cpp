// Exports that only tell: what chip, which version, what a device has and uses, what went wrong last. What it is not: what
// clients set (api_settings.cpp).
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "acl/api.h"
#include "acl/soft.h"
#include "softnpu/runtime/config.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/device.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/soc.h"
#include "softnpu/runtime/stream.h"
#include "softnpu/runtime/utilization.h"

using namespace softnpu;

namespace {

// The CANN whose interface we follow: clients ask for 9.0.0 or later.
constexpr const char* kVersion = "9.0.0";
constexpr int kMajor = 9, kMinor = 0, kPatch = 0;
constexpr int kVersionNumber = kMajor * 10000000 + kMinor * 100000 + kPatch * 1000;

int64_t attribute(int device, aclrtDevAttr attr) {
  const Soc& soc = *config().soc;
  switch (int(attr)) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
      return sysconf(_SC_NPROCESSORS_ONLN);
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      return soc.cube_cores;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      return soc.vector_cores;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      return int64_t(Device::get(device).capacity());
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      return int64_t(soc.l2_bytes);
    case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
      return 192 << 10;
    case ACL_DEV_ATTR_WARP_SIZE:
      return 32;
    case ACL_DEV_ATTR_PHY_CHIP_ID:
      return Device::get(device).physical();
    case ACL_DEV_ATTR_SMP_ID:
    case ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
    case ACL_DEV_ATTR_SUPER_POD_SERVER_ID:
    case ACL_DEV_ATTR_SUPER_POD_ID:
    case ACL_DEV_ATTR_CUST_OP_PRIVILEGE:
    case ACL_DEV_ATTR_MAINBOARD_ID:
      return 0;
    case ACL_DEV_ATTR_IS_VIRTUAL:
      return 1;
    default:
      fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "device attribute %d is not known to the software NPU", int(attr));
  }
}

}  // namespace

SOFTNPU_EXPORT const char* aclrtGetSocName() {
  const char* name = nullptr;
  guarded_always(__func__, [&] { name = config().soc->name; });
  return name;
}

SOFTNPU_EXPORT int softnpuStrict(void) {
  int strict = 0;
  guarded_always(__func__, [&] { strict = config().strict; });
  return strict;
}

SOFTNPU_EXPORT aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  return guarded_always(__func__, [&] {
    need(majorVersion, "majorVersion");
    need(minorVersion, "minorVersion");
    need(patchVersion, "patchVersion");
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
  });
}

SOFTNPU_EXPORT aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  return guarded_always(__func__, [&] {
    need(version, "version");
    memset(version, 0, sizeof *version);
    snprintf(version->version, sizeof version->version, "%s", kVersion);
    snprintf(version->majorVersion, sizeof version->majorVersion, "%d", kMajor);
    snprintf(version->minorVersion, sizeof version->minorVersion, "%d", kMinor);
    snprintf(version->releaseVersion, sizeof version->releaseVersion, "%d", kPatch);
    snprintf(version->patchVersion, sizeof version->patchVersion, "%d", 0);
  });
}

// Every package has the one version. The caller's buffer is ACL_PKG_VERSION_MAX_SIZE long.
SOFTNPU_EXPORT aclError aclsysGetVersionStr(char* pkgName, char* versionStr) {
  return guarded_always(__func__, [&] {
    need(pkgName, "pkgName");
    need(versionStr, "versionStr");
    snprintf(versionStr, ACL_PKG_VERSION_MAX_SIZE, "%s", kVersion);
  });
}

SOFTNPU_EXPORT aclError aclsysGetVersionNum(char* pkgName, int32_t* versionNum) {
  return guarded_always(__func__, [&] {
    need(pkgName, "pkgName");
    need(versionNum, "versionNum");
    *versionNum = kVersionNumber;
  });
}

SOFTNPU_EXPORT aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    switch (cannAttr) {
      case ACL_CANN_ATTR_INF_NAN:
        *value = 1;
        break;
      case ACL_CANN_ATTR_BF16:
        *value = config().soc->bf16;
        break;
      case ACL_CANN_ATTR_JIT_COMPILE:
        *value = 0;
        break;
      default:
        fail(ACL_ERROR_INVALID_PARAM, "%d is not a CANN attribute", int(cannAttr));
    }
  });
}

SOFTNPU_EXPORT aclError aclGetCannAttributeList(const aclCannAttr** cannAttrList, size_t* num) {
  return guarded(__func__, [&] {
    need(cannAttrList, "cannAttrList");
    need(num, "num");
    static constexpr aclCannAttr with_bf16[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16};
    *cannAttrList = with_bf16;
    *num = config().soc->bf16 ? 2 : 1;
  });
}

SOFTNPU_EXPORT aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    Device::get(int(deviceId));
    switch (deviceInfo) {
      case ACL_DEVICE_INFO_AI_CORE_NUM:
        *value = config().soc->cube_cores;
        break;
      case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        *value = config().soc->vector_cores;
        break;
      case ACL_DEVICE_INFO_L2_SIZE:
        *value = int64_t(config().soc->l2_bytes);
        break;
      default:
        fail(ACL_ERROR_INVALID_PARAM, "%d is not a device capability", int(deviceInfo));
    }
  });
}

SOFTNPU_EXPORT aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    Device::get(int(deviceId));
    *value = attribute(int(deviceId), attr);
  });
}

SOFTNPU_EXPORT aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  return guarded(__func__, [&] {
    need(runMode, "runMode");
    *runMode = ACL_HOST;
  });
}

SOFTNPU_EXPORT aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus) {
  return guarded(__func__, [&] {
    need(deviceStatus, "deviceStatus");
    Device::get(deviceId);
    *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
  });
}

SOFTNPU_EXPORT aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  return guarded(__func__, [&] {
    need(pid, "pid");
    *pid = getpid();
  });
}

// Stable for a user's device: the same in every process.
SOFTNPU_EXPORT aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid) {
  return guarded(__func__, [&] {
    need(uuid, "uuid");
    memset(uuid, 0, sizeof *uuid);
    snprintf(uuid->bytes, sizeof uuid->bytes, "anycend-npu-%03d", Device::get(deviceId).physical());
  });
}

SOFTNPU_EXPORT aclError aclrtDeviceGetPCIBusId(int32_t deviceId, char* pciBusId, int32_t len) {
  return guarded(__func__, [&] {
    need(pciBusId, "pciBusId");
    if (len < 13) fail(ACL_ERROR_INVALID_PARAM, "the bus id needs 13 bytes, %d given", len);
    snprintf(pciBusId, size_t(len), "0000:%02X:00.0", 0x80 + Device::get(deviceId).physical());
  });
}

SOFTNPU_EXPORT aclError aclrtGetDevicesTopo(uint32_t deviceId, uint32_t otherDeviceId, uint64_t* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    Device::get(int(deviceId));
    Device::get(int(otherDeviceId));
    *value = ACL_RT_DEVS_TOPOLOGY_HCCS;
  });
}

SOFTNPU_EXPORT aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, const int32_t* logicDevId) {
  return guarded(__func__, [&] {
    need(logicDevId, "logicDevId");
    *const_cast<int32_t*>(logicDevId) = Device::get(userDevid).index();
  });
}

SOFTNPU_EXPORT aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, const int32_t* phyDevId) {
  return guarded(__func__, [&] {
    need(phyDevId, "phyDevId");
    *const_cast<int32_t*>(phyDevId) = Device::get(logicDevId).physical();
  });
}

// There is one kind of core here: what its executors did since the previous question, or in a sample (utilization.h).
SOFTNPU_EXPORT aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* utilizationInfo) {
  return guarded(__func__, [&] {
    static Utilization& utilization = *new Utilization;
    need(utilizationInfo, "utilizationInfo");
    Device& d = Device::get(deviceId);
    const int percent = utilization.percent(d.physical(), 50);
    const uint64_t used = d.capacity() - std::min(d.capacity(), d.free_bytes());
    *utilizationInfo = {percent, percent, percent, int32_t(100 * used / d.capacity()), nullptr};
  });
}

SOFTNPU_EXPORT aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo* memUsageInfo, size_t inputNum,
                                             size_t* outputNum) {
  return guarded(__func__, [&] {
    need(memUsageInfo, "memUsageInfo");
    need(outputNum, "outputNum");
    Device& d = Device::get(deviceId);
    if (inputNum == 0) fail(ACL_ERROR_INVALID_PARAM, "inputNum is 0");
    memset(memUsageInfo, 0, sizeof *memUsageInfo);
    snprintf(memUsageInfo->name, sizeof memUsageInfo->name, "app");
    memUsageInfo->curMemSize = d.used_bytes();
    memUsageInfo->memPeakSize = d.peak_bytes();
    *outputNum = 1;
  });
}

// The last status but success that a call of this thread returned. Asking is no call of its own: these two set nothing.
SOFTNPU_EXPORT aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  return level == ACL_RT_THREAD_LEVEL ? last_error() : ACL_ERROR_RT_PARAM_INVALID;
}

SOFTNPU_EXPORT aclError aclrtGetLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) return ACL_ERROR_RT_PARAM_INVALID;
  int code = last_error();
  set_last_error(0);
  return code;
}

SOFTNPU_EXPORT aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo* errorInfo) {
  return guarded(__func__, [&] {
    need(errorInfo, "errorInfo");
    Device::get(deviceId);
    memset(errorInfo, 0, sizeof *errorInfo);
  });
}

SOFTNPU_EXPORT aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray, size_t arraySize,
                                           size_t* retSize) {
  return guarded(__func__, [&] {
    need(retSize, "retSize");
    Device::get(deviceId);
    *retSize = 0;  // no memory of ours has uncorrectable errors
  });
}
