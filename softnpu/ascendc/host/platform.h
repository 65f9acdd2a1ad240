// platform_ascendc: the chip, as tiling functions ask for it. The sizes are those that kernels run with (ANYCEND_SOC).
#pragma once

#include <cstdint>

#include "../include/ascendc/runtime.h"
#include "acl/acl.h"

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B, L0_C, L1, L2, UB, HBM, RESERVED };
enum class SocVersion { ASCEND910 = 0, ASCEND910B, ASCEND310P, ASCEND310B, ASCEND910_95, ASCEND950, RESERVED_VERSION };
enum class NpuArch { DAV_1001 = 1001, DAV_2201 = 2201, DAV_3510 = 3510, DAV_RESV = 0 };

class PlatformAscendC {
 public:
  PlatformAscendC() : PlatformAscendC(nullptr) {}
  explicit PlatformAscendC(const void*) : chip_(softnpuAscendcGetChip()) {}
  uint32_t GetCoreNum() const { return chip_ ? chip_->vector_cores : 0; }
  uint32_t GetCoreNumAiv() const { return GetCoreNum(); }
  uint32_t GetCoreNumAic() const { return chip_ ? chip_->cube_cores : 0; }
  uint32_t GetCoreNumVector() const { return 0; }
  SocVersion GetSocVersion() const {
    const uint32_t a = chip_ ? chip_->architecture : 0;
    return a == 2201   ? SocVersion::ASCEND910B
           : a == 3510 ? SocVersion::ASCEND950
           : a == 1001 ? SocVersion::ASCEND910
                       : SocVersion::RESERVED_VERSION;
  }
  NpuArch GetCurNpuArch() const { return chip_ ? static_cast<NpuArch>(chip_->architecture) : NpuArch::DAV_RESV; }
  void GetCoreMemSize(const CoreMemType& memory, uint64_t& bytes) const {
    bytes = 0;
    if (chip_ == nullptr) return;
    switch (memory) {
      case CoreMemType::L0_A:
        bytes = chip_->l0a;
        break;
      case CoreMemType::L0_B:
        bytes = chip_->l0b;
        break;
      case CoreMemType::L0_C:
        bytes = chip_->l0c;
        break;
      case CoreMemType::L1:
        bytes = chip_->l1;
        break;
      case CoreMemType::L2:
        bytes = chip_->l2;
        break;
      case CoreMemType::UB:
        bytes = chip_->unified_buffer;
        break;
      case CoreMemType::HBM:
        if (int64_t all = 0; aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &all) == 0)
          bytes = static_cast<uint64_t>(all);
        break;
      default:
        break;
    }
  }
  // What the high-level functions of kernels keep at the start of the workspace: none do here, and users add it as they do on the chip.
  uint32_t GetLibApiWorkSpaceSize() const { return 16 * 1024 * 1024; }
  uint32_t CalcTschBlockDim(uint32_t slices, uint32_t cube, uint32_t vector) const {
    if (cube == 0 || vector == 0 || cube > vector) return slices;
    const uint32_t ratio = vector / cube;
    return (slices + ratio - 1) / ratio;
  }

 private:
  const softnpuAscendcChip* chip_;
};
class PlatformAscendCManager {
 public:
  static PlatformAscendC* GetInstance() {
    static PlatformAscendC one;
    return &one;
  }
  static PlatformAscendC* GetInstance(const char*) { return GetInstance(); }
};

}  // namespace platform_ascendc
