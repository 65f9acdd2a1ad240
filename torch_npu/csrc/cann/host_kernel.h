// Kernels that this process compiled for its own processor (torch.compile): only the software NPU runs them, whose device memory
// is the processor's. What it is not: a launch; csrc/python/host_kernel.cpp makes it. Who calls it: csrc/python.
#pragma once

#include "acl/soft.h"
#include "csrc/cann/export.h"

namespace cann {

// Null where the chosen libascendcl exports none: CANN on an Ascend server. Loads libascendcl; throws as acl() does.
NPU_API decltype(&::softnpuLaunchKernel) host_kernel_launcher();

}  // namespace cann
