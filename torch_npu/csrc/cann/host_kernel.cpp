#include "csrc/cann/host_kernel.h"

#include "csrc/cann/library.h"

namespace cann {

decltype(&::softnpuLaunchKernel) host_kernel_launcher() {
  static const auto found =
      reinterpret_cast<decltype(&::softnpuLaunchKernel)>(find_symbol(open_library("ascendcl"), "softnpuLaunchKernel"));
  return found;
}

}  // namespace cann
