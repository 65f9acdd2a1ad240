// torch_npu._C._distributed_c10d: ProcessGroupHCCL and its Options, as torch_npu.distributed gives them to PyTorch.
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "csrc/distributed/group.h"
#include "csrc/python/bind.h"

namespace py = pybind11;

namespace npu::python {

using distributed::ProcessGroupHCCL;

void bind_distributed(py::module& module) {
  // The base classes are bound there.
  py::module::import("torch._C._distributed_c10d");
  py::module m = module.def_submodule("_distributed_c10d", "ProcessGroupHCCL");
  py::class_<ProcessGroupHCCL, c10::intrusive_ptr<ProcessGroupHCCL>, c10d::Backend> group(m, "ProcessGroupHCCL");
  py::class_<ProcessGroupHCCL::Options, c10::intrusive_ptr<ProcessGroupHCCL::Options>, c10d::Backend::Options>(
      group, "Options")
      .def(py::init([](bool is_high_priority_stream) {
             auto options = c10::make_intrusive<ProcessGroupHCCL::Options>();
             options->is_high_priority_stream = is_high_priority_stream;
             return options;
           }),
           py::arg("is_high_priority_stream") = false)
      .def_readwrite("is_high_priority_stream", &ProcessGroupHCCL::Options::is_high_priority_stream);
  group
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                       c10::intrusive_ptr<ProcessGroupHCCL::Options> options) {
             return c10::make_intrusive<ProcessGroupHCCL>(store, rank, size, std::move(options));
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"),
           py::call_guard<py::gil_scoped_release>())
      .def("get_hccl_comm_name", &ProcessGroupHCCL::hccl_comm_name, py::arg("device"),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("options", [](ProcessGroupHCCL& self) {
        return c10::static_intrusive_pointer_cast<ProcessGroupHCCL::Options>(self.getBackendOptions());
      });
  m.def("_stop_watchdog", no_gil(&distributed::stop_watchdog));
}

}  // namespace npu::python
