// See cuda_alias.h.
#include "torch_npu/csrc/python/cuda_alias.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <string_view>

#include "torch_npu/csrc/ops/cuda_alias.h"
#include "torch_npu/csrc/python/redirect.h"

namespace npu::python {
namespace {

PyObject* enable(PyObject* /*self*/, PyObject* /*noargs*/) {
  HANDLE_TH_ERRORS
  cuda_alias::enable();
  // A cuda factory must not call torch.cuda._lazy_init(): that one looks for the CUDA runtime. The npu's own lazy
  // initialization happens in the allocator.
  torch::utils::set_requires_device_init(c10::DeviceType::CUDA, false);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* disable(PyObject* /*self*/, PyObject* /*noargs*/) {
  HANDLE_TH_ERRORS
  redirect::remove_all();
  cuda_alias::disable();
  torch::utils::set_requires_device_init(c10::DeviceType::CUDA, true);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* enabled(PyObject* /*self*/, PyObject* /*noargs*/) { return PyBool_FromLong(cuda_alias::enabled()); }

PyObject* redirect_function(PyObject* /*self*/, PyObject* args) {
  PyObject* target = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(args, "Os:_redirect", &target, &name) == 0) {
    return nullptr;
  }
  const std::string_view rule(name);
  if (rule != "device" && rule != "autocast" && rule != "to_cuda") {
    return PyErr_Format(PyExc_ValueError, "npu: unknown rule '%s'", name);
  }
  const auto which = rule == "device"     ? redirect::Rule::device
                     : rule == "autocast" ? redirect::Rule::autocast
                                          : redirect::Rule::to_cuda;
  if (!redirect::install(target, which)) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"_cuda_alias_enable", enable, METH_NOARGS, "Let the device type cuda mean the npu."},
    {"_cuda_alias_disable", disable, METH_NOARGS, "Undo _cuda_alias_enable and every _redirect."},
    {"_cuda_alias_enabled", enabled, METH_NOARGS, "Whether cuda means the npu."},
    {"_redirect", redirect_function, METH_VARARGS,
     "_redirect(function, rule): let a built-in take cuda for npu; rule is 'device', 'autocast' or 'to_cuda'."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool bind_cuda_alias(PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace npu::python
