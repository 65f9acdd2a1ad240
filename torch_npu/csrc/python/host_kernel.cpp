// The way of a kernel that torch.compile made to its stream. The compiled kernel calls `launch` through the capsule
// torch_npu._C._host_kernel: a plain C function, so that its module needs none of our headers (torch_npu/_inductor/launch.py
// has the other side of this signature).
#include "csrc/cann/host_kernel.h"

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

}  // namespace

void bind_host_kernel(pybind11::module& module) {
  module.def("_runs_host_kernels", no_gil([] { return cann::host_kernel_launcher() != nullptr; }));
  module.def("_prefer_compositions", no_gil([](bool on) { prefer_compositions(on); }));
  module.attr("_host_kernel") = py::capsule(reinterpret_cast<void*>(&launch), "torch_npu._C._host_kernel");
}

}  // namespace npu::python
