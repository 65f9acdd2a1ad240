// Whether a kernel takes the numbers it is given: see rehearse.cpp. Who calls it: launch, before a task is queued. What it is not:
// the run.
#pragma once

#include "softnpu/ops/op.h"

namespace softnpu::ops {

// A status other than 0: what phase two answers, with the kernel's own words as the recent error message.
int rehearse(const Op& op, const aclOpExecutor& executor) noexcept;

}  // namespace softnpu::ops
