// Limits on cores and external events for Python: what graphs and streams that run side by side are steered by.
#include "csrc/core/core_limit.h"

#include <memory>
#include <tuple>

#include "csrc/core/device_index.h"
#include "csrc/core/external_event.h"
#include "csrc/python/bind.h"

namespace npu::python {
namespace {

using Cores = std::tuple<uint32_t, uint32_t>;  // cube, vector

Cores pair(CoreLimit limit) { return {limit.cube, limit.vector}; }

}  // namespace

void bind_core_limit(pybind11::module& module) {
  module.def("_device_core_limit", no_gil([](int device) { return pair(device_core_limit(existing_device(device))); }));
  module.def("_set_device_core_limit", no_gil([](int device, uint32_t cube, uint32_t vector) {
               set_device_core_limit(existing_device(device), {cube, vector});
             }));
  module.def("_stream_core_limit",
             no_gil([](int64_t id, int device) { return pair(stream_core_limit(stream_of(id, device))); }));
  module.def("_set_stream_core_limit", no_gil([](int64_t id, int device, uint32_t cube, uint32_t vector) {
               set_stream_core_limit(stream_of(id, device), {cube, vector});
             }));
  module.def("_reset_stream_core_limit",
             no_gil([](int64_t id, int device) { reset_stream_core_limit(stream_of(id, device)); }));

  module.def("_make_external_event", no_gil([] { return std::make_unique<ExternalEvent>(); }));
  py::class_<ExternalEvent>(module, "_ExternalEvent")
      .def("raw", with_gil([](const ExternalEvent& event) { return reinterpret_cast<intptr_t>(event.raw()); }))
      .def("device", with_gil([](const ExternalEvent& event) { return int(event.device()); }))
      .def("record", no_gil([](const ExternalEvent& event, int64_t id, int i) { event.record(stream_of(id, i)); }))
      .def("wait", no_gil([](const ExternalEvent& event, int64_t id, int i) { event.wait(stream_of(id, i)); }))
      .def("reset", no_gil([](const ExternalEvent& event, int64_t id, int i) { event.reset(stream_of(id, i)); }));
}

}  // namespace npu::python
