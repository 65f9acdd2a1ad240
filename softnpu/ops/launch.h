// Phase two, in parts: what launch (run.cpp) does with a kernel, for operators of several (script.cpp).
#pragma once

#include <c10/util/FunctionRef.h>

#include "softnpu/nnopbase/executor.h"
#include "softnpu/ops/op.h"
#include "softnpu/runtime/enqueue.h"

namespace softnpu::ops {

// The executor of `op` behind the handle, which is spent with it: the caller owns it. Null with a status and a message where it is none.
aclOpExecutor* take(const Op& op, aclOpExecutor* handle, aclrtStream stream, aclnnStatus* status) noexcept;

// Decides the thread of its kernels, and how many threads they use.
Cost choose_threads(const Op& op, aclOpExecutor& executor, aclrtStream stream);

// The body as a kernel: below KernelGuard, and what it throws becomes a status and a message.
int run_guarded(const Op& op, int threads, c10::function_ref<void()> body) noexcept;

}  // namespace softnpu::ops
