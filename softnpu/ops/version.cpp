// A release supports exactly one minor version of torch: its C++ ABI is not stable. Looked at once, when the library is loaded;
// with another torch every operator fails in phase one and says so, instead of computing with a changed struct.
#include <torch/headeronly/version.h>

#include <cstdio>

#include "softnpu/ops/op.h"

// In libtorch_cpu since 2.10: major, minor and patch in the upper bytes.
extern "C" uint64_t aoti_torch_abi_version();

namespace softnpu::ops {

namespace {

const char* compare() {
  static char text[200];
  uint64_t loaded = aoti_torch_abi_version();
  if (loaded >> 48 == TORCH_ABI_VERSION >> 48) return nullptr;
  std::snprintf(text, sizeof text, "libopapi.so was built for torch %d.%d.x and found %d.%d: install torch==%s",
                TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, static_cast<int>(loaded >> 56),
                static_cast<int>(loaded >> 48 & 0xff), TORCH_VERSION);
  return text;
}

}  // namespace

const char* const wrong_torch = compare();

}  // namespace softnpu::ops
