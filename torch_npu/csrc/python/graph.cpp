// Graphs and memory pools for Python: torch.npu.NPUGraph and what torch_npu/npu/graphs.py is made of.
#include "csrc/core/graph.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Storage.h>

#include "csrc/core/allocator.h"
#include "csrc/core/capture_told.h"
#include "csrc/core/device_index.h"
#include "csrc/core/task_group.h"
#include "csrc/python/bind.h"

namespace npu::python {
namespace {

at::GraphCaptureMode mode_of(const std::string& name) {
  if (name == "global") return at::GraphCaptureMode::Global;
  if (name == "thread_local") return at::GraphCaptureMode::ThreadLocal;
  if (name == "relaxed") return at::GraphCaptureMode::Relaxed;
  TORCH_CHECK_VALUE(false, "capture_error_mode is 'global', 'thread_local' or 'relaxed', not '", name, "'");
}

void begin_on_this_thread(int index, c10::MempoolId_t id) {
  memory::begin_allocate_to(device_index(index), id, false, [thread = std::this_thread::get_id()](c10::StreamId) {
    return std::this_thread::get_id() == thread;
  });
}

// What Python's listener returned for a capture, which `remove` ends. A process that ends drops it.
struct Handle {
  py::object handle;
  Handle(py::object given) : handle(std::move(given)) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (!Py_IsInitialized()) {
      handle.release();
      return;
    }
    const py::gil_scoped_acquire gil;
    const py::error_scope errors;  // of what is being raised
    try {
      py::object(std::move(handle)).attr("remove")();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("torch_npu: the end of a capture");
    }
  }
};

py::object* python_listener = nullptr;  // set once, under the GIL

std::shared_ptr<void> tell_python() {
  const py::gil_scoped_acquire gil;
  return std::make_shared<Handle>((*python_listener)());
}

void listen_from_python(py::function listener) {
  TORCH_CHECK(!python_listener, "npu: Python listens to captures already");
  python_listener = new py::object(std::move(listener));
  listen_to_captures(&tell_python);
}

}  // namespace

void bind_graph(py::module& module) {
  py::class_<Graph, std::shared_ptr<Graph>>(module, "_NPUGraph")
      .def(py::init([](bool keep_graph) { return std::make_shared<Graph>(at::GraphImplArgs{keep_graph}); }),
           py::arg("keep_graph") = false)
      .def("capture_begin", no_gil([](Graph& self, std::optional<c10::MempoolId_t> pool, const std::string& mode) {
             self.capture_begin(pool.value_or(c10::MempoolId_t{0, 0}), mode_of(mode));
           }),
           py::arg("pool") = py::none(), py::arg("capture_error_mode") = "global")
      .def("capture_end", no_gil(&Graph::capture_end))
      .def("instantiate", no_gil(&Graph::instantiate))
      .def("replay", no_gil(&Graph::replay))
      .def("reset", no_gil(&Graph::reset))
      .def("pool", no_gil(&Graph::pool))
      .def("register_generator_state",
           with_gil([](Graph& self, const at::Generator& generator) { self.random_of(generator); }))
      .def("enable_debug_mode", with_gil(&Graph::enable_debug_mode))
      .def("debug_dump", no_gil(&Graph::debug_dump), py::arg("path"));
  module.def("_any_capturing", &any_capturing);
  module.def("_any_updating", &any_updating);
  module.def("_is_captured",
             no_gil([](int64_t id, int64_t i) { return capturing_graph(stream_of(id, i)) != nullptr; }));
  module.def("_listen_to_captures", with_gil(&listen_from_python));
  py::class_<TaskGroup, std::shared_ptr<TaskGroup>>(module, "_NPUTaskGroupHandle")
      .def_property_readonly("task_group",
                             with_gil([](const TaskGroup& group) { return reinterpret_cast<intptr_t>(group.raw()); }));
  module.def("_graph_task_group_begin", no_gil([](int64_t id, int64_t i) { begin_task_group(stream_of(id, i)); }));
  module.def("_graph_task_group_end", no_gil([](int64_t id, int64_t i) { return end_task_group(stream_of(id, i)); }));
  module.def("_graph_task_update_begin", no_gil([](int64_t id, int64_t i, const std::shared_ptr<TaskGroup>& group) {
               begin_update(stream_of(id, i), group);
             }));
  module.def("_graph_task_update_end", no_gil([](int64_t id, int64_t i) { end_update(stream_of(id, i)); }));
  // Of a storage without memory: whoever asks for it gets an error with these words. With its former size views can still be made of it.
  module.def("_refuse_access", with_gil([](py::handle storage, size_t bytes, std::string words) {
               c10::StorageImpl* impl = torch::createStorage(storage.ptr()).unsafeGetStorageImpl();
               impl->set_nbytes(bytes);
               impl->release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(words));
             }));
  module.def("_new_pool_id", with_gil([] { return memory::new_pool_id(false); }));
  module.def("_hold_pool", no_gil([](int index, c10::MempoolId_t id, uintptr_t alloc, uintptr_t free) {
               memory::hold_pool(device_index(index), id, source_at(alloc, free));
             }));
  module.def("_drop_pool", no_gil([](int index, c10::MempoolId_t id) { memory::drop_pool(device_index(index), id); }));
  module.def("_begin_allocate_to", no_gil(&begin_on_this_thread));
  module.def("_end_allocate_to",
             no_gil([](int index, c10::MempoolId_t id) { memory::end_allocate_to(device_index(index), id); }));
}

}  // namespace npu::python
