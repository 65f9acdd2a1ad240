// Who wants to know, on its thread, that a capture begins there. What a listener returns is let go of when the capture ends, on whatever
// thread; null if it wants nothing of that. What it is not: the capture (graph.h). Who listens: csrc/python/checks.cpp, for the lines of
// captured operators, and csrc/python/graph.cpp, for Python; who calls them: graph.cpp.
#pragma once

#include <memory>

#include "csrc/cann/export.h"

namespace npu {

using CaptureListener = std::shared_ptr<void> (*)();

// For as long as the process lives. May be called by any thread.
NPU_API void listen_to_captures(CaptureListener listener);

}  // namespace npu
