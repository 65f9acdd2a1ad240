// Ranges and marks of torch_npu.npu.mstx, for module.cpp.
#pragma once

#include "csrc/python/bind.h"

namespace npu::python {

void bind_profiler(pybind11::module& module);

}  // namespace npu::python
