// torch.npu.set_sync_debug_mode: a warning or an error where the host waits for a stream because a program asked for a result
// (a copy to the host, .item(), shapes that only a kernel knows, Stream.synchronize). What it is not: the wait. As on CUDA,
// torch.npu.synchronize() and events are no such places: who calls them wants to wait. Who calls it: csrc/ops, csrc/core/guard.
#pragma once

#include <c10/macros/Macros.h>

#include <atomic>

#include "csrc/cann/export.h"

namespace npu {

enum class SyncDebug : int { kOff = 0, kWarn = 1, kError = 2 };

namespace detail {
NPU_API extern std::atomic<SyncDebug> sync_debug;
void report_wait(SyncDebug mode);
}  // namespace detail

// Before a wait. Cost: a load.
inline void about_to_wait() {
  const SyncDebug mode = detail::sync_debug.load(std::memory_order_relaxed);
  if (C10_UNLIKELY(mode != SyncDebug::kOff)) detail::report_wait(mode);
}

}  // namespace npu
