// What generated operators say when they fail: with CPU tensors, and in general. And how generated code finds an operator.
// Installed for users' operators: see result.h.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <string_view>

#include "../../cann/export.h"

namespace npu::ops {

inline c10::OperatorHandle schema_of(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

// Rethrows the error that is being caught. One that does not name operator `op` says it in front, with the argument that a function of
// CANN has refused by the name of its own parameter. `names`: the arguments, and parameters that are called otherwise, "x=input,input,gamma". Errors that come from what ran before
// on the stream, and want of memory, stay as they are.
[[noreturn]] NPU_API void rethrow_named(c10::Error& error, std::string_view op, std::string_view names);

NPU_API void refuse_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The kernel of an operator whose tensors are all in lists, where these are empty: PyTorch knows no device then.
NPU_API void refuse_no_tensors(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace npu::ops
