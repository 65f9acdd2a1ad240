// ASCEND_LOGE(format, ...), ASCEND_LOGW, ASCEND_LOGI, ASCEND_LOGD: a line of CANN's log, as printf. Arguments are evaluated only if
// the level is on (OptionsManager.h). The line is CANN's aclAppLog, found at run time: nothing has to be linked.
#pragma once

#include "torch_npu/csrc/core/npu/register/OptionsManager.h"

namespace torch_npu::extension {

// Thread-safe. Lines longer than 4 KiB are cut. Throws c10::Error where no CANN can be loaded.
__attribute__((format(printf, 5, 6))) TORCH_NPU_API void log(aclLogLevel level, const char* function, const char* file,
                                                             unsigned line, const char* format, ...);

}  // namespace torch_npu::extension

#define TORCH_NPU_LOG_(level, ...)                                                       \
  do {                                                                                   \
    if (::c10_npu::option::OptionsManager::isACLGlobalLogOn(level))                      \
      ::torch_npu::extension::log(level, __FUNCTION__, __FILE__, __LINE__, __VA_ARGS__); \
  } while (false)
#define ASCEND_LOGE(...) TORCH_NPU_LOG_(ACL_ERROR, __VA_ARGS__)
#define ASCEND_LOGW(...) TORCH_NPU_LOG_(ACL_WARNING, __VA_ARGS__)
#define ASCEND_LOGI(...) TORCH_NPU_LOG_(ACL_INFO, __VA_ARGS__)
#define ASCEND_LOGD(...) TORCH_NPU_LOG_(ACL_DEBUG, __VA_ARGS__)
