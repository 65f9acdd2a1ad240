// A task that fails, or hangs, instead of running: what ANYCEND_FAULT asks for. Who calls it: Stream::submit, if faults are asked for.
#pragma once

#include "softnpu/runtime/work.h"
#include "softnpu/sanitize/faults.h"

namespace softnpu {

// The task, or one of its name and cost that ends with the fault's status; it owns the first. A task that hangs may be cut short by
// aborting its stream alone. What waits for other streams or is remade at each replay stays as it is.
Work spoiled(Work&& work, const sanitize::TaskFault& fault);

}  // namespace softnpu
