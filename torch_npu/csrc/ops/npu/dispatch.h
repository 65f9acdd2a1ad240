// The kernel of operators of ops/npu.yaml for CPU tensors: an error that says what to do. Registered by generated code. And how that code finds an operator.
// Installed for users' operators: see result.h.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "../../cann/export.h"

namespace npu::ops {

inline c10::OperatorHandle schema_of(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

NPU_API void refuse_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace npu::ops
