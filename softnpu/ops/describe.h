// What the record of a kernel says of its tensors (runtime/trace.h). Who calls it: run.cpp registers it; the runtime calls it while
// somebody listens. What it is not: the log of calls (call_log.cpp).
#pragma once

#include <string>

#include "softnpu/race/accesses.h"

struct aclOpExecutor;  // nnopbase/executor.h

namespace softnpu::trace {
struct Description;
}

namespace softnpu::ops {

// `state` is the executor of a task. Throws bad_alloc.
void describe_task(const void* state, trace::Description& description);

// "FLOAT[10,4], INT64[2]": what the kernel was given. Throws bad_alloc.
std::string inputs_of(const aclOpExecutor& e);

// What the kernel reads and writes, for the race detector.
void tell_task(const void* state, race::Accesses& accesses);

}  // namespace softnpu::ops
