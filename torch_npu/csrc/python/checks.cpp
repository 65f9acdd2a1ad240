// What only PyTorch can tell the race detector and the memory checker (ANYCEND_CHECK=race, memory): the line of the program that an operator
// belongs to, and which pinned memory operators on the CPU read and write. By a callback before each operator, set once one is asked for.
// What it is not: the detector (softnpu/race), the checker (softnpu/memcheck). Who calls it: torch_npu/_startup.py, torch_npu/npu.
// Long because checks, captures and reads on the host share the callback and its state of a thread.
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "csrc/cann/checks.h"
#include "csrc/cann/error.h"
#include "csrc/core/capture_told.h"
#include "csrc/core/graph.h"
#include "csrc/python/bind.h"

namespace npu::python {
namespace {

// --- lines: that of the innermost frame that is neither PyTorch's nor ours ----------------------------------------------------

struct Code {
  bool program;  // not a library's
  std::string file;
};

struct Lines {  // guarded by the GIL
  std::vector<std::string> libraries;
  std::unordered_map<PyObject*, Code> codes;  // each is kept alive
  std::unordered_map<PyObject*, std::unordered_map<int, const char*>> places;
  std::unordered_set<std::string> texts;
};
Lines& lines() {
  static auto* const l = new Lines();
  return *l;
}

const Code& code_of(PyObject* code, PyFrameObject* frame) {
  Lines& l = lines();
  const auto [it, fresh] = l.codes.try_emplace(code);
  if (!fresh) return it->second;
  Py_INCREF(code);
  Code& c = it->second;
  // A path may have bytes that are no UTF-8, which Python keeps as lone surrogates.
  const py::object file = py::handle(code).attr("co_filename");
  c.file =
      std::string(py::reinterpret_steal<py::bytes>(PyUnicode_AsEncodedString(file.ptr(), "utf-8", "backslashreplace")));
  const auto globals = py::reinterpret_steal<py::dict>(PyFrame_GetGlobals(frame));
  const std::string module = globals.contains("__name__") ? py::str(globals["__name__"]) : py::str("");
  c.program = !(c.file.starts_with('<') && module != "__main__");
  for (const char* inner : {"contextlib", "functools", "threading", "typing_extensions"})
    c.program = c.program && module != inner;
  for (const std::string& library : l.libraries) c.program = c.program && !c.file.starts_with(library);
  return c;
}

const char* kept(std::string text) { return lines().texts.insert(std::move(text)).first->c_str(); }

// Null where the thread runs no code of the program. GIL held.
const char* line_now() {
  auto frame =
      py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* f = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(f)));
    if (const Code& c = code_of(code.ptr(), f); c.program) {
      const char*& place = lines().places[code.ptr()][PyFrame_GetLasti(f)];
      if (!place) place = kept(c.file + ":" + std::to_string(PyFrame_GetLineNumber(f)));
      return place;
    }
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
  }
  return nullptr;
}

// Which line's forward made the node of a number: threads of the autograd engine run no code of the program.
struct Forward {
  std::mutex mutex;
  struct Made {
    int64_t number = -1;
    const char* place = nullptr;
  };
  std::array<Made, 1 << 16> made;
};
Forward& forward() {
  static auto* const f = new Forward();
  return *f;
}

// --- operators on the host ---------------------------------------------------------------------------------------------------

struct Arguments {
  std::vector<int8_t> touched;  // by position: 0 no, 1 read, 2 written
};

// Views, and operators that hand their work on to others, touch nothing themselves.
const Arguments& arguments_of(const c10::OperatorName& name) {
  static thread_local std::unordered_map<c10::OperatorName, Arguments> known;
  const auto [it, fresh] = known.try_emplace(name);
  if (!fresh) return it->second;
  static const std::unordered_set<std::string> kOnlyMetadata{"aten::set_", "aten::resize_", "aten::resize_as_"};
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  if (!handle || kOnlyMetadata.count(name.name)) return it->second;
  if (!handle->hasKernelForDispatchKey(c10::DispatchKey::CPU) && name.name != "aten::copy_") return it->second;
  for (const c10::Argument& argument : handle->schema().arguments()) {
    const c10::AliasInfo* alias = argument.alias_info();
    it->second.touched.push_back(alias ? (alias->isWrite() ? 2 : 0) : 1);
  }
  return it->second;
}

// Tensors of a trace have no memory, and may have no numbers for sizes.
bool is_real(const at::Tensor& t) {
  return t.defined() && !t.key_set().has(c10::DispatchKey::Python) &&
         !t.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

// Calls visit(tensor) for the tensors of an argument: itself, or a list's members.
template <class Visit>
void each_tensor(const c10::IValue& input, const Visit& visit) {
  if (input.isTensor()) {
    if (is_real(input.toTensor())) visit(input.toTensor());
  } else if (input.isList()) {  // Tensor[] and Tensor?[] alike
    for (const c10::IValue& member : input.toListRef()) each_tensor(member, visit);
  }
}

// Copies between host and device: their work the runtime sees.
bool copies(const std::string& name) { return name == "aten::copy_" || name.starts_with("aten::_copy_from"); }

// What Python was asked to raise on the thread, until it has.
thread_local const char* asked = nullptr;

void heard() { asked = nullptr; }

// `plain`, with which Python's end begins: what the program's last line left would be raised within it, forgotten, and threads not be waited
// for. It ends the process with status 1 instead. No code of Python's, which would raise it at once.
py::object at_the_end(py::object plain) {
  return py::cpp_function([plain = std::move(plain)] {
    if (asked) {
      PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), nullptr);
      cann::watched.load(std::memory_order_relaxed)->owed(std::exchange(asked, nullptr));
    }
    plain();
  });
}

// Where races are errors, of an operator on the host: an observer cannot throw, so Python is asked to raise it when the operator's call
// is over. A thread that runs no Python leaves it to the next task.
void raise_soon(const char* name, const char* report) {
  if (Py_IsInitialized() && PyGILState_GetThisThreadState()) {
    const py::gil_scoped_acquire gil;
    const py::error_scope raised;
    const auto frame =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
    try {
      if (frame) {  // autograd's own threads have a state and run nothing
        const py::object error = py::module_::import("torch_npu._host_reads").attr("error_of")(name, report);
        if (PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), error.ptr()) == 1) {
          asked = report;
          return;
        }
      }
    } catch (const py::error_already_set&) {  // the interpreter ends
    }
  }
  cann::watched.load(std::memory_order_relaxed)->owed(report);
}

// An operator on the host touches all its arguments. Of one on a device the runtime sees the work; the host reads numbers for it, which may
// be tensors without dimensions.
void tell_host(const at::RecordFunction& function) {
  const auto inputs = function.inputs();
  bool on_host = false, on_device = false;
  for (const c10::IValue& input : inputs)
    each_tensor(input, [&](const at::Tensor& t) { (t.is_cpu() ? on_host : on_device) = true; });
  if (!on_host) return;
  const auto name = function.operator_name();
  if (!name || (on_device && copies(name->name))) return;
  const Arguments& arguments = arguments_of(*name);
  const cann::Checks& checks = *cann::watched.load(std::memory_order_relaxed);
  for (size_t i = 0; i < inputs.size() && i < arguments.touched.size(); ++i) {
    const int8_t touched = arguments.touched[i];
    if (touched == 0 || (on_device && touched == 2)) continue;
    each_tensor(inputs[i], [&](const at::Tensor& t) {
      if (!t.is_cpu() || t.layout() != c10::kStrided || !t.has_storage() || t.numel() == 0) return;
      if (on_device && t.dim() > 0) return;
      if (const char* report =
              checks.host(name->name.c_str(), t.const_data_ptr(), static_cast<int>(t.dim()), t.sizes().data(),
                          t.strides().data(), static_cast<int>(t.element_size()), touched == 2))
        raise_soon(name->name.c_str(), report);
    });
  }
}

// --- the callback ------------------------------------------------------------------------------------------------------------

thread_local int depth = 0;
thread_local const char* place = nullptr;

// For CANN's calls from outside of operators (ctypes, the module acl, an extension), and for tensors that go (`del x`: PyTorch has given the
// GIL up there). Takes the GIL, with no lock held: within operators and the backward pass, where PyTorch may hold one, it may not wait.
const char* line_of_call(int may_wait) {
  if (!Py_IsInitialized() || !PyGILState_GetThisThreadState()) return nullptr;
  if (!may_wait && (depth > 0 || torch::autograd::get_current_graph_task_id() != -1)) return nullptr;
  const py::gil_scoped_acquire gil;
  const py::error_scope raised;  // a tensor may go while an exception is on its way
  return line_now();
}

// Gradients are summed by operators of their own, behind the function whose gradient arrived.
thread_local const char* last_backward = nullptr;

const char* place_of(const at::RecordFunction& function) {
  if (!Py_IsInitialized()) return nullptr;
  const py::gil_scoped_acquire gil;
  if (const char* line = line_now()) return line;
  if (function.scope() != at::RecordScope::BACKWARD_FUNCTION) return last_backward;
  const char* made = nullptr;
  {
    Forward& f = forward();
    const std::lock_guard<std::mutex> lock(f.mutex);
    const auto& entry = f.made[static_cast<size_t>(function.seqNr()) % f.made.size()];
    if (entry.number == function.seqNr()) made = entry.place;
  }
  return last_backward = kept(made ? std::string(made) + " (backward)" : std::string("backward of ") + function.name());
}

using Tell = decltype(&::softnpuPlace);

void enter(const at::RecordFunction& function, Tell tell) {
  // The engine wraps the functions of the backward pass in one that has no number.
  const bool backward = function.scope() == at::RecordScope::BACKWARD_FUNCTION;
  if (depth++ == 0 || (!place && backward)) tell(place = place_of(function));
  if (backward || function.seqNr() < 0 || !place) return;
  Forward& f = forward();
  const std::lock_guard<std::mutex> lock(f.mutex);
  f.made[static_cast<size_t>(function.seqNr()) % f.made.size()] = {function.seqNr(), place};
}

void leave(Tell tell) {
  if (--depth == 0) tell(place = nullptr);
}

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& function) {
  enter(function, cann::watched.load(std::memory_order_relaxed)->place);
  if (function.scope() == at::RecordScope::FUNCTION) tell_host(function);
  return nullptr;
}

void behind(const at::RecordFunction&, at::ObserverContext*) {
  leave(cann::watched.load(std::memory_order_relaxed)->place);
}

// --- captures: the lines of what a graph keeps, for the errors of its replays. Without checks, which tell them all the time. ------------

// Of the thread; the backward pass and others that take over its state (at::ThreadLocalState) have the callback, too.
struct Capturing {
  std::shared_ptr<std::atomic<int>> graphs = std::make_shared<std::atomic<int>>(0);
  at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
};
thread_local Capturing capturing;

struct Entered : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> before_captured(const at::RecordFunction& function) {
  if (!any_capturing()) return nullptr;
  enter(function, cann::place_function());
  return std::make_unique<Entered>();
}

void behind_captured(const at::RecordFunction&, at::ObserverContext* entered) {
  if (entered) leave(cann::place_function());
}

// A capture that ends on another thread leaves this one its callback, which asks any_capturing, until this one's next capture is over.
std::shared_ptr<void> capture_begins() {
  if (cann::watched.load(std::memory_order_relaxed) || !cann::place_function()) return nullptr;
  Capturing& own = capturing;
  if (own.callback == at::INVALID_CALLBACK_HANDLE)
    own.callback =
        at::addThreadLocalCallback(at::RecordFunctionCallback(&before_captured, &behind_captured)
                                       .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  const auto over = [graphs = own.graphs](void*) {
    if (graphs->fetch_sub(1) != 1 || capturing.graphs != graphs) return;
    at::removeCallback(std::exchange(capturing.callback, at::INVALID_CALLBACK_HANDLE));
  };
  own.graphs->fetch_add(1);
  return {own.graphs.get(), over};
}

// --- reads on the host by no operator (torch_npu/_host_reads.py) --------------------------------------------------------------

void read_by_program(const char* name, const void* data, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                     size_t item) {
  const cann::Checks& checks = *cann::watched.load(std::memory_order_relaxed);
  if (!place) checks.place(line_now());
  const char* report = checks.host(name, data, static_cast<int>(sizes.size()), sizes.data(), strides.data(),
                                   static_cast<int>(item), false);
  if (!place) checks.place(nullptr);
  if (report)
    throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, ACL_ERROR_RT_INTERNAL_ERROR,
                                c10::str("npu: ", name, ": race (ANYCEND_CHECK_EXIT=1): ", report));
}

void storage_read_on_host(const at::Storage& storage, const std::string& name) {
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  if (storage.device_type() != c10::kCPU || bytes == 0) return;
  read_by_program(name.c_str(), storage.data(), {bytes}, {1}, 1);
}

// Whether Tensor.tolist goes to a mode or a subclass, which may call it again. Only asks: PyTorch's own question has an effect.
bool is_overridden(PyObject* tensor) {
  using at::impl::PythonTorchFunctionTLS;
  if (skips_next<PythonTorchFunctionTLS>()) return false;
  if (at::impl::torch_function_mode_enabled()) return true;
  if (THPVariable_CheckExact(tensor) || PythonTorchFunctionTLS::get_disabled_state() != at::impl::ENABLED) return false;
  static PyObject* const none =
      py::object(py::module_::import("torch._C").attr("_disabled_torch_function_impl")).release().ptr();
  const py::object own = py::handle(reinterpret_cast<PyObject*>(Py_TYPE(tensor))).attr("__torch_function__");
  return own.ptr() != none;
}

// PyTorch's own function. Set once, under the GIL.
PyCFunction plain_tolist = nullptr;

PyObject* tolist(PyObject* self, PyObject* arguments) {
  HANDLE_TH_ERRORS
  if (!is_overridden(self)) {
    const at::Tensor& t = THPVariable_Unpack(self);
    if (t.defined() && t.is_cpu() && t.layout() == c10::kStrided && t.has_storage() && t.numel() != 0 &&
        !t.unsafeGetTensorImpl()->is_python_dispatch())
      read_by_program("Tensor.tolist", t.const_data_ptr(), t.sizes(), t.strides(), t.element_size());
  }
  return plain_tolist(self, arguments);
  END_HANDLE_TH_ERRORS
}

// A method like PyTorch's `plain`, but that it tells the detector first.
py::object telling_tolist(const py::object& plain) {
  auto* const descriptor = reinterpret_cast<PyMethodDescrObject*>(plain.ptr());
  TORCH_CHECK(Py_IS_TYPE(plain.ptr(), &PyMethodDescr_Type) && descriptor->d_method->ml_flags == METH_NOARGS,
              "npu: Tensor.tolist is not PyTorch's own: ANYCEND_CHECK=race needs it as it is when torch is imported");
  static PyMethodDef method = *descriptor->d_method;
  plain_tolist = method.ml_meth;
  method.ml_meth = &tolist;
  return py::reinterpret_steal<py::object>(PyDescr_NewMethod(PyDescr_TYPE(plain.ptr()), &method));
}

// `libraries`: folders whose code is not the program's.
void find_lines(std::vector<std::string> libraries) {
  lines().libraries = std::move(libraries);
  listen_to_captures(&capture_begins);
}

void watch(bool race, bool memory) {
  if (cann::watched.load()) return;
  cann::watch(race, memory);
  cann::watched.load()->place_by(&line_of_call);
  at::addGlobalCallback(at::RecordFunctionCallback(&before, &behind)
                            .needsInputs(true)
                            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

// What `count` and `report` of a check have, which `name` asks for.
std::vector<std::string> reports(bool cann::Checks::* on, uint64_t (*cann::Checks::*count)(),
                                 const char* (*cann::Checks::*report)(uint64_t), const char* name, const char* page) {
  const cann::Checks* checks = cann::watched.load();
  TORCH_CHECK(checks && checks->*on, "npu: nothing is looked for: set ANYCEND_CHECK=", name,
              " before the program starts, see anycend docs ", page);
  std::vector<std::string> all;
  for (uint64_t n = (checks->*count)(), i = 0; i < n; ++i)
    if (const char* text = (checks->*report)(i)) all.emplace_back(text);
  return all;
}
std::vector<std::string> race_reports() {
  return reports(&cann::Checks::race, &cann::Checks::race_count, &cann::Checks::race_report, "race", "race");
}
std::vector<std::string> memory_reports() {
  return reports(&cann::Checks::memory, &cann::Checks::memory_count, &cann::Checks::memory_report, "memory",
                 "memory_check");
}

}  // namespace

void bind_checks(pybind11::module& module) {
  module.def("_find_lines", with_gil(&find_lines));
  module.def("_watch", with_gil(&watch));
  module.def("_heard", with_gil(&heard));
  module.def("_at_the_end", with_gil(&at_the_end));
  module.def("_storage_read_on_host", with_gil(&storage_read_on_host));
  module.def("_telling_tolist", with_gil(&telling_tolist));
  module.def("_race_reports", with_gil(&race_reports));
  module.def("_memory_reports", with_gil(&memory_reports));
}

}  // namespace npu::python
