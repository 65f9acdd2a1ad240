#include "csrc/core/sync_debug.h"

#include <c10/util/Exception.h>

namespace npu::detail {

std::atomic<SyncDebug> sync_debug{SyncDebug::kOff};

void report_wait(SyncDebug mode) {
  TORCH_CHECK(mode != SyncDebug::kError, "called a synchronizing NPU operation");
  TORCH_WARN("called a synchronizing NPU operation");
}

}  // namespace npu::detail
