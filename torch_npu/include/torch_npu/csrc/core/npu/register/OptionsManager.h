// Whether a message of a level is to be logged. Who uses it: ASCEND_LOG* (npu_log.h), copies of it in extensions.
#pragma once

#include <acl/acl_base.h>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace c10_npu::option {

class TORCH_NPU_API OptionsManager {
 public:
  // By ASCEND_GLOBAL_LOG_LEVEL (0 debug to 3 error, which is the default; 4 nothing), read once. Thread-safe.
  static bool isACLGlobalLogOn(aclLogLevel level);
};

}  // namespace c10_npu::option
