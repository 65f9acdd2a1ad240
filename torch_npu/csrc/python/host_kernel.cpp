// What code calls that torch.compile wrote: the way of a kernel to its stream, and new tensors. The compiled kernel calls `launch` through the
// capsule torch_npu._C._host_kernel: a plain C function, so that its module needs none of our headers (torch_npu/_inductor/launch.py
// has the other side of this signature).
#include "csrc/cann/host_kernel.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/device_lazy_init.h>
#include <torch/csrc/utils/python_numbers.h>

#include "csrc/cann/error.h"
#include "csrc/ops/composed/processor.h"
#include "csrc/python/bind.h"

namespace npu::python {
namespace {

using Run = int (*)(void* state, char* message, size_t room);
using Drop = void (*)(void* state);

// Called with the GIL, which it releases: a full stream has to be waited for. Returns 0, or -1 with a Python error set.
int launch(uintptr_t stream, Run run, Drop drop, void* state, const char* name, int cost) {
  HANDLE_TH_ERRORS
  const softnpuKernel kernel{run, drop, state, name, static_cast<softnpuKernelCost>(cost)};
  const py::gil_scoped_release no_gil;
  const auto softnpuLaunchKernel = cann::host_kernel_launcher();
  if (softnpuLaunchKernel == nullptr) {
    drop(state);
    TORCH_CHECK_NOT_IMPLEMENTED(false, "npu: ", name,
                                " was compiled for the software NPU, and this CANN cannot run it");
  }
  NPU_CHECK(softnpuLaunchKernel(reinterpret_cast<aclrtStream>(stream), &kernel));
  return 0;
  END_HANDLE_TH_ERRORS_RET(-1)
}

using Sizes = c10::SmallVector<int64_t, 8>;

Sizes sizes_in(PyObject* tuple) {
  TORCH_CHECK_TYPE(PyTuple_Check(tuple), "_empty_strided: sizes and strides are tuples");
  Sizes out;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    out.push_back(THPUtils_unpackLong(PyTuple_GET_ITEM(tuple, i)));
  return out;
}

// _empty_strided(sizes, strides, dtype, device index): torch.empty_strided past its parser of arguments, which costs more than it.
PyObject* empty_strided_python(PyObject*, PyObject* const* args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 4 && THPDtype_Check(args[2]), "_empty_strided(sizes, strides, dtype, device index)");
  const Sizes sizes = sizes_in(args[0]), strides = sizes_in(args[1]);
  TORCH_CHECK_VALUE(sizes.size() == strides.size(), "_empty_strided: ", sizes.size(), " sizes, ", strides.size(),
                    " strides");
  const at::ScalarType type = reinterpret_cast<THPDtype*>(args[2])->scalar_type;
  const auto index = static_cast<c10::DeviceIndex>(THPUtils_unpackLong(args[3]));
  torch::utils::device_lazy_init(at::kPrivateUse1);
  using EmptyStrided = at::Tensor(c10::SymIntArrayRef, c10::SymIntArrayRef, std::optional<at::ScalarType>,
                                  std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::empty_strided", "").typed<EmptyStrided>();
  at::Tensor made;
  {
    const py::gil_scoped_release no_gil;
    made = op.call(c10::fromIntArrayRefSlow(sizes), c10::fromIntArrayRefSlow(strides), type, std::nullopt,
                   at::Device(at::kPrivateUse1, index), std::nullopt);
  }
  return THPVariable_Wrap(std::move(made));
  END_HANDLE_TH_ERRORS
}

PyMethodDef for_generated_code[] = {
    {"_empty_strided", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&empty_strided_python)),
     METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void bind_host_kernel(pybind11::module& module) {
  module.def("_runs_host_kernels", no_gil([] { return cann::host_kernel_launcher() != nullptr; }));
  module.def("_prefer_compositions", no_gil([](bool on) { prefer_compositions(on); }));
  if (PyModule_AddFunctions(module.ptr(), for_generated_code) != 0) throw pybind11::error_already_set();
  module.attr("_host_kernel") = py::capsule(reinterpret_cast<void*>(&launch), "torch_npu._C._host_kernel");
}

}  // namespace npu::python
