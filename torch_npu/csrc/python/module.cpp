// torch_npu._C: what the Python package needs beyond PyTorch's own interfaces (torch.Stream, torch.Event, torch.Generator and
// torch.accelerator come through the hooks and the guard). Each file of this directory adds its own functions by a bind_*.
// Rule: every binding that can block releases the GIL (`no_gil`).
#include <cxxabi.h>
#include <unistd.h>

#include "csrc/core/without_gil.h"
#include "csrc/python/bind.h"
#include "csrc/python/cuda_alias.h"
#include "csrc/python/profiler.h"
#include "csrc/python/sharing.h"

namespace {

// After the interpreter's end PyGILState_Check said yes (Python 3.11): in a library's destructor, and to a new thread there.
void* release_gil() { return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; }

// Python ends a thread that asks for the lock after the interpreter's end from within, through frames that must not be left so: it stays here,
// as Python 3.14 has it.
void take_gil(void* thread) {
  try {
    PyEval_RestoreThread(static_cast<PyThreadState*>(thread));
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  npu::set_gil(&release_gil, &take_gil);
  npu::python::bind_device(module);
  npu::python::bind_core_limit(module);
  npu::python::bind_memory(module);
  npu::python::bind_graph(module);
  npu::python::bind_host_function(module);
  npu::python::bind_host_kernel(module);
  npu::python::bind_ops(module);
  npu::python::bind_checks(module);
  npu::python::bind_report(module);
  npu::python::bind_profiler(module);
  npu::python::bind_sharing(module);
  npu::python::bind_distributed(module);
  if (!npu::python::bind_cuda_alias(module.ptr())) throw pybind11::error_already_set();
}
