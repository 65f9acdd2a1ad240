// Lets go of something when work that may use it is done, on a thread of its own that is started at the first need: whoever frees a
// tensor may hold the GIL, which a host callback on the stream may wait for, so it must not wait itself.
// Who calls it: sharing.cpp, for another process's memory. What it is not: the allocator's events (device_cache.h).
#pragma once

#include <memory>

#include "csrc/core/pending_work.h"

namespace npu {

// `kept` is dropped here if there is no work, else by the thread. What is left at the process's end is the kernel's to take.
void release_later(PendingWork work, std::shared_ptr<void> kept);

}  // namespace npu
