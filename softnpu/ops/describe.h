// What the record of a kernel says of its tensors (runtime/trace.h). Who calls it: run.cpp registers it; the runtime calls it while
// somebody listens. What it is not: the log of calls (call_log.cpp).
#pragma once

#include "softnpu/race/accesses.h"

namespace softnpu::trace {
struct Description;
}

namespace softnpu::ops {

// `state` is the executor of a task. Throws bad_alloc.
void describe_task(const void* state, trace::Description& description);

// What the kernel reads and writes, for the race detector.
void tell_task(const void* state, race::Accesses& accesses);

}  // namespace softnpu::ops
