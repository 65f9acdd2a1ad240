// Who wants to know, on its thread, that a capture begins there. What it returns is let go of when the capture ends, on whatever thread.
// Null: nobody does. What it is not: the capture (graph.h). Who sets it: csrc/python/checks.cpp, for the lines of captured operators; who calls it: graph.cpp.
#pragma once

#include <atomic>
#include <memory>

#include "csrc/cann/export.h"

namespace npu {

NPU_API extern std::atomic<std::shared_ptr<void> (*)()> capture_told;

}  // namespace npu
