// Storages and events that other processes use, for torch_npu.multiprocessing: each becomes bytes, bytes become one again.
#include "csrc/python/sharing.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Storage.h>

#include <limits>
#include <memory>

#include "csrc/core/device_index.h"
#include "csrc/core/shared_event.h"
#include "csrc/core/sharing.h"
#include "csrc/python/bind.h"

namespace npu::python {
void bind_sharing(pybind11::module& module) {
  module.def("_share_storage", with_gil([](const py::object& storage, int64_t channel) {
               const c10::Storage shared = torch::createStorage(storage.ptr());
               std::string message;
               {
                 py::gil_scoped_release no_gil;
                 message = share_storage(shared, channel);
               }
               return py::bytes(message);
             }));
  module.def("_sent_device", with_gil([](const std::string& message) { return int(sent_device(message)); }));
  module.def("_receive_storage", with_gil([](const py::bytes& message, int device) {
               const std::string text = message;
               TORCH_CHECK_VALUE(device >= -1 && device <= std::numeric_limits<c10::DeviceIndex>::max(),
                                 "npu: the device of a shared tensor's handle is ", device, ", which is no device");
               c10::Storage storage;
               {
                 py::gil_scoped_release no_gil;
                 storage = receive_storage(text, device_index(device));
               }
               return py::reinterpret_steal<py::object>(THPStorage_Wrap(std::move(storage)));
             }),
             py::arg("message"), py::arg("device") = -1);
  module.def("_collect_shared", no_gil([] { return collect_shared(); }));
  module.def("_waiting_messages", no_gil([] { return waiting_messages(); }));
  module.def("_give_up_messages", no_gil([](const std::vector<uint32_t>& slots) { give_up_messages(slots); }));
  module.def("_outstanding_messages", no_gil([] { return outstanding_messages(); }));

  module.def("_make_shared_event",
             no_gil([](int device) { return std::make_unique<SharedEvent>(device_index(device)); }));
  module.def("_open_shared_event", no_gil([](const std::string& handle, int device) {
               return std::make_unique<SharedEvent>(handle, device_index(device));
             }));
  py::class_<SharedEvent>(module, "_SharedEvent")
      .def("handle", with_gil([](const SharedEvent& event) { return py::bytes(event.handle()); }))
      .def("raw", with_gil([](const SharedEvent& event) { return reinterpret_cast<intptr_t>(event.raw()); }))
      .def("record", no_gil([](const SharedEvent& event, int64_t id, int i) { event.record(stream_of(id, i)); }))
      .def("wait", no_gil([](const SharedEvent& event, int64_t id, int i) { event.wait(stream_of(id, i)); }))
      .def("query", no_gil([](const SharedEvent& event) { return event.query(); }))
      .def("synchronize", no_gil([](const SharedEvent& event) { event.synchronize(); }));
}

}  // namespace npu::python
