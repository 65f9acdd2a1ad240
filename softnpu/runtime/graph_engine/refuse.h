// The body of a function of the graph engine, which the software NPU does not have. Who includes it: gen/stubs/{graph,ge_runner}.cpp.
#pragma once

#include "softnpu/runtime/stub.h"

namespace softnpu {

// Throws std::runtime_error with the function's name. The interface is C++ and its callers turn exceptions into Python's.
[[noreturn]] void refuse_graph(const char* mangled);

}  // namespace softnpu
