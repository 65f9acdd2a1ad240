// What print_npugraph_tensor and save_npugraph_tensor have handed over, for the thread of torch_npu/npu/_reports.py that writes it.
#include "csrc/ops/npu/report.h"

#include "csrc/python/bind.h"

namespace npu::python {
namespace {

void start() {
  const py::gil_scoped_acquire gil;
  py::module_::import("torch_npu.npu._reports").attr("start")();
}

// (kind, values, text, overwrite, device), or None when there is no more.
py::object next() {
  std::optional<Report> r;
  {
    const py::gil_scoped_release released;
    r = next_report();
  }
  if (!r) return py::none();
  return py::make_tuple(static_cast<int>(r->kind), r->values, r->text, r->overwrite, static_cast<int>(r->device));
}

}  // namespace

void bind_report(pybind11::module& module) {
  set_report_starter(&start);
  module.def("_next_report", with_gil(&next));
  module.def("_close_reports", no_gil([] { close_reports(); }));
}

}  // namespace npu::python
