// Who wants to know, on its thread, that a capture begins there (true) or ends (false). Null: nobody does. What it is not: the capture
// (graph.h). Who sets it: csrc/python/checks.cpp, for the lines of captured operators; who calls it: graph.cpp.
#pragma once

#include <atomic>

#include "csrc/cann/export.h"

namespace npu {

NPU_API extern std::atomic<void (*)(bool begins)> capture_told;

}  // namespace npu
