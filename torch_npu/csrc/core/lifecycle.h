// The life of the NPU in this process: not begun → ready → finalized, or dead in a forked child. Initialization is lazy:
// nothing but the device count is asked of CANN before the first tensor, stream or synchronization.
// What it is not: devices and contexts (device.h). Who calls it: this room, device.cpp and destructors above all, and csrc/python.
#pragma once

#include <atomic>

#include "csrc/cann/export.h"

namespace npu {

enum class Life : int { kNotBegun, kReady, kForked, kFinalized };

namespace detail {
NPU_API extern std::atomic<Life> life;
}

// Calls to CANN are possible. Destructors ask before they call: a tensor or event may outlive the device, at exit or in a
// forked child. Cost: one load.
inline bool alive() noexcept { return detail::life.load(std::memory_order_acquire) == Life::kReady; }

// Throws c10::Error: the forked child's, or one about the environment or the toolkit. A failed initialization may be tried
// again (after the variables were corrected).
NPU_API void initialize();

// This process was forked from one whose NPU was initialized.
NPU_API bool in_bad_fork() noexcept;

// Waits for the work of every device, and says on stderr what failed or is dropped.
NPU_API void drain() noexcept;
// The same, then finalizes. Called once at exit, before the interpreter goes; never throws.
NPU_API void finalize() noexcept;

}  // namespace npu
