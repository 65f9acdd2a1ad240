// What print_npugraph_tensor and save_npugraph_tensor write: torch_npu/npu/_reports.py says it, called on a thread of CANN's.
#include "csrc/ops/npu/report.h"

#include "csrc/python/bind.h"

namespace npu::python {
namespace {

bool python_ends() {
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

void report(const Report& r) {
  if (python_ends()) return;  // the lock would never come
  const py::gil_scoped_acquire gil;
  try {
    const py::module_ reports = py::module_::import("torch_npu.npu._reports");
    const py::object text = r.text ? py::object(py::str(*r.text)) : py::object(py::none());
    if (r.kind == Report::Kind::kPrint) {
      reports.attr("printed")(r.values[0], text);
    } else if (r.kind == Report::Kind::kSave) {
      reports.attr("saved")(r.values[0], text, r.overwrite, static_cast<int>(r.device));
    } else {
      reports.attr("saved")(r.values, text, r.overwrite, static_cast<int>(r.device));
    }
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("torch_npu.npu._reports");
  }
}

}  // namespace

void bind_report(pybind11::module&) { set_reporter(&report); }

}  // namespace npu::python
