// Devices, streams, events and generators for Python.
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Event.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <system_error>
#include <thread>

#include "csrc/cann/error.h"
#include "csrc/cann/root.h"
#include "csrc/core/device.h"
#include "csrc/core/device_index.h"
#include "csrc/core/empty.h"
#include "csrc/core/event.h"
#include "csrc/core/generator.h"
#include "csrc/core/info.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/process_device.h"
#include "csrc/core/recovery.h"
#include "csrc/core/stream.h"
#include "csrc/core/task_group.h"
#include "csrc/ops/npu/report.h"
#include "csrc/python/bind.h"

namespace npu::python {
namespace {

using c10::DeviceIndex;
using StreamParts = std::tuple<int64_t, int64_t>;  // stream id, device index

StreamParts parts(c10::Stream stream) { return {stream.id(), stream.device_index()}; }

// PyTorch notes by itself that the device is initialized where a tensor is made, and until then torch.accelerator.synchronize() waits
// for nothing: a program may have work on streams alone.
void tell_initialized() { torch::utils::device_lazy_init(c10::DeviceType::PrivateUse1); }

// An empty backward pass on each device in use.
void pass_on_each_device() {
  const c10::AutoGradMode with_gradients(true);
  for (DeviceIndex device = 0; device < device_count(); ++device) {
    if (!has_context(device)) continue;
    try {
      const NPUGuard guard(device);
      const at::Tensor x = empty({0}, at::kFloat).requires_grad_(true);
      torch::autograd::grad({x.view({-1})}, {x}, {empty({0}, at::kFloat)});
    } catch (const std::exception&) {
      // After a failed operator every call of its device throws. The program has been told, and is over.
    }
  }
}

// Waits until the autograd engine's threads have let go of the last backward pass. PyTorch keeps the caller's Python objects
// (its contextvars, its modes) with each pass, and an engine thread may drop the last reference after `backward()` returned.
// Once the interpreter is finalizing, that ends the process with SIGABRT. An empty pass behind it in the thread's queue returns
// only after the reference is gone; it comes from a new thread, which has no Python objects of its own to keep.
void settle_autograd() {
  if (!alive()) return;
  try {
    std::thread(pass_on_each_device).join();
  } catch (const std::system_error&) {
    // No thread can start, and so none of the engine's did.
  }
}

}  // namespace

void bind_device(pybind11::module& module) {
  // Life.
  module.def("_init", no_gil([] { initialize(); }));
  module.def("_settle_autograd", no_gil(settle_autograd));
  module.def("_finalize", no_gil([] { finalize(); }));
  module.def("_drain", no_gil([] { drain(); }));
  module.def("_is_initialized", with_gil([] { return alive(); }));
  module.def("_is_in_bad_fork", with_gil([] { return in_bad_fork(); }));
  module.def("_cann_root", no_gil([] { return std::make_tuple(cann::root().path, cann::root().soft); }));

  // Devices.
  module.def("_device_count", no_gil([] { return static_cast<int>(device_count()); }));
  module.def("_current_device", with_gil([] { return static_cast<int>(current_device()); }));
  module.def("_set_device", no_gil([](int index) {
               initialize();
               choose_device(device_index(index));
             }));
  module.def("_exchange_device", no_gil([](int index) {  // a negative index changes nothing
               const DeviceIndex former = current_device();
               if (index >= 0 && index != former) set_device(device_index(index));
               return static_cast<int>(former);
             }));
  module.def("_has_context", with_gil([](int index) { return has_context(device_index(index)); }));
  module.def("_synchronize", no_gil([](int index) {  // a negative index is the current device
               synchronize_device(index < 0 ? current_device() : device_index(index));
               drain_reports();
             }));
  module.def("_stop_device", no_gil([](int index) { return stop_device(device_index(index)); }));
  module.def("_restart_device",
             no_gil([](int index, bool new_streams) { restart_device(device_index(index), new_streams); }));
  module.def("_mark_unsafe", with_gil([](int index) { mark_unsafe(device_index(index)); }));
  module.def("_is_safe",
             with_gil([](py::handle storage) { return is_safe(torch::createStorage(storage.ptr()).data_ptr()); }));
  module.def("_set_safe",
             with_gil([](py::handle storage) { set_safe(torch::createStorage(storage.ptr()).data_ptr()); }));
  module.def("_set_refuse_unsafe", with_gil(set_refuse_unsafe));
  module.def("_refuses_unsafe", with_gil([] { return refuses_unsafe(); }));
  module.def("_can_access_peer",
             no_gil([](int device, int peer) { return can_access_peer(device_index(device), device_index(peer)); }));
  module.def("_soc_name", no_gil([] { return soc_name(); }));
  module.def("_memory_errors", no_gil([](int index) { return memory_errors(device_index(index)); }));
  module.def("_utilization", no_gil([](int index) { return utilization(device_index(index)); }));
  module.def("_device_properties", no_gil([](int index) {
               const DeviceProperties p = device_properties(device_index(index));
               return std::make_tuple(p.name, p.total_memory, p.cube_cores, p.vector_cores, p.l2_cache, p.uuid,
                                      p.pci_bus);
             }));

  // Streams, as (stream id, device index).
  module.def("_current_stream", with_gil([](int index) { return parts(current_stream(device_index(index))); }));
  module.def("_default_stream", with_gil([](int index) { return parts(default_stream(device_index(index))); }));
  module.def("_set_stream", no_gil([](int64_t id, int64_t index) {
               set_device(device_index(index));
               exchange_stream(stream_of(id, index));
             }));
  module.def("_stream_from_pool", no_gil([](int index, int priority) {
               initialize();
               tell_initialized();
               return parts(stream_from_pool(device_index(index), priority));
             }));
  module.def("_external_stream", no_gil([](int64_t pointer, int index) {
               tell_initialized();
               return parts(
                   external_stream(reinterpret_cast<aclrtStream>(static_cast<intptr_t>(pointer)), device_index(index)));
             }));
  module.def("_raw_stream", no_gil([](int64_t id, int64_t index) {
               return reinterpret_cast<intptr_t>(raw_stream(stream_of(id, index)));
             }));
  module.def("_current_raw_stream", no_gil([](int64_t index) {
               return reinterpret_cast<intptr_t>(raw_stream(current_stream(device_index(index))));
             }));
  module.def("_stream_priority",
             with_gil([](int64_t id, int64_t index) { return is_high_priority(stream_of(id, index)) ? -1 : 0; }));
  module.def("_is_capturing", no_gil([] {
               const c10::Stream stream = current_stream();
               return is_capturing(stream) && !is_updating(stream);
             }));

  // Events: the handle of a torch.Event.
  module.def("_event_timestamp", no_gil([](int64_t event) {
               return event_timestamp(reinterpret_cast<aclrtEvent>(static_cast<intptr_t>(event)));
             }));

  // torch.Event.elapsed_time takes no subclass of torch.Event, which torch.npu.Event is.
  module.def("_event_elapsed_time", with_gil([](const py::object& start, const py::object& end) {
               TORCH_CHECK_TYPE(THPEvent_Check(start.ptr()) && THPEvent_Check(end.ptr()),
                                "expected other to be a torch.Event object");
               const c10::Event& first = reinterpret_cast<THPEvent*>(start.ptr())->event;
               const c10::Event& last = reinterpret_cast<THPEvent*>(end.ptr())->event;
               py::gil_scoped_release no_gil;
               return first.elapsedTime(last);
             }));

  module.def("_default_generator", with_gil([](int index) { return default_generator(device_index(index)); }));
}

}  // namespace npu::python
