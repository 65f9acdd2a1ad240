#include "softnpu/ascendc/runtime/chip.h"

#include <cstdio>
#include <cstring>

#include "acl/api.h"

namespace softnpu::ascendc {
namespace {

constexpr uint32_t kKiB = 1024;

// By the beginning of the chip's name, the longest first. Sizes: docs/ascendc.md.
constexpr struct {
  const char* prefix;
  uint32_t architecture, unified_buffer, l1, l0a, l0b, l0c;
} kFamilies[] = {
    {"Ascend910_93", 2201, 192 * kKiB, 512 * kKiB, 64 * kKiB, 64 * kKiB, 128 * kKiB},
    {"Ascend910B1", 2201, 192 * kKiB, 512 * kKiB, 64 * kKiB, 64 * kKiB, 128 * kKiB},
    {"Ascend910B2", 2201, 192 * kKiB, 512 * kKiB, 64 * kKiB, 64 * kKiB, 128 * kKiB},
    {"Ascend910B3", 2201, 192 * kKiB, 512 * kKiB, 64 * kKiB, 64 * kKiB, 128 * kKiB},
    {"Ascend910B4", 2201, 192 * kKiB, 512 * kKiB, 64 * kKiB, 64 * kKiB, 128 * kKiB},
    {"Ascend950", 3510, 248 * kKiB, 512 * kKiB, 64 * kKiB, 64 * kKiB, 256 * kKiB},
    {"Ascend910", 1001, 256 * kKiB, 1024 * kKiB, 64 * kKiB, 64 * kKiB, 256 * kKiB},
};

const softnpuAscendcChip* find() noexcept {
  static softnpuAscendcChip found;
  const char* name = aclrtGetSocName();
  if (name == nullptr) return nullptr;
  for (const auto& f : kFamilies) {
    if (strncmp(name, f.prefix, strlen(f.prefix)) != 0) continue;
    int64_t vector = 0, cube = 0, l2 = 0;
    if (aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &vector) != 0) return nullptr;
    if (aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &cube) != 0) return nullptr;
    if (aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, &l2) != 0) return nullptr;
    snprintf(found.name, sizeof found.name, "%s", name);
    found.architecture = f.architecture;
    found.unified_buffer = f.unified_buffer;
    found.l1 = f.l1;
    found.l0a = f.l0a;
    found.l0b = f.l0b;
    found.l0c = f.l0c;
    found.l2 = static_cast<uint64_t>(l2);
    found.vector_cores = static_cast<uint32_t>(vector);
    found.cube_cores = static_cast<uint32_t>(cube);
    return &found;
  }
  return nullptr;
}

}  // namespace

const softnpuAscendcChip* chip() noexcept {
  static const softnpuAscendcChip* known = find();
  return known;
}

}  // namespace softnpu::ascendc

extern "C" __attribute__((visibility("default"))) const softnpuAscendcChip* softnpuAscendcGetChip(void) {
  return softnpu::ascendc::chip();
}
