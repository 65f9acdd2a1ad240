// Adds to torch_npu._C what torch_npu.multiprocessing needs. Its own header, so that module.cpp alone sees it.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace npu::python {

void bind_sharing(pybind11::module& module);

}  // namespace npu::python
