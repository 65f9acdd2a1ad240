// Adds to torch_npu._C what torch_npu/contrib/transfer_to_npu.py needs: _cuda_alias_enable, _cuda_alias_disable,
// _cuda_alias_enabled, _redirect and _redirect_remove_all.
#pragma once

#include <Python.h>

namespace npu::python {

// False with a Python exception set on failure.
bool bind_cuda_alias(PyObject* module);

}  // namespace npu::python
