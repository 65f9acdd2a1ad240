// Functions of Python as a stream's work: torch.npu._launch_host_func. The stream hands one over to the thread that is subscribed to it
// (torch_npu/npu/_host_functions.py) and goes on when it has returned. On the software NPU a small kernel behind it fails if it has
// raised, as any kernel would, and is dropped with the last run, also of a graph: the function ends then. Elsewhere it
// ends when its stream is not subscribed to any more.
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "csrc/cann/error.h"
#include "csrc/cann/host_function.h"
#include "csrc/cann/host_kernel.h"
#include "csrc/core/device.h"
#include "csrc/core/device_index.h"
#include "csrc/core/stream.h"
#include "csrc/python/bind.h"

namespace npu::python {
namespace {

constexpr const char* kName = "_launch_host_func";

// Of the last run that raised and was not told of yet.
class Raised {
 public:
  void set(std::string text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    text_ = std::move(text);
  }
  std::string take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(text_, {});
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

struct HostFunction {
  HostFunction(py::object given, c10::Stream of) : call(std::move(given)), stream(of) {}

  py::object call;  // without arguments; returns None, or what it raised as a text
  c10::Stream stream;
  Raised raised;
};

// By the number that CANN is given in place of an address: what comes too late finds nothing.
class HostFunctions {
 public:
  uintptr_t put(py::object call, c10::Stream stream) {
    auto function = std::make_shared<HostFunction>(std::move(call), stream);
    const std::lock_guard<std::mutex> lock(mutex_);
    functions_.emplace(++last_, std::move(function));
    return last_;
  }
  std::shared_ptr<HostFunction> find(uintptr_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = functions_.find(number);
    return found == functions_.end() ? nullptr : found->second;
  }
  // Without the interpreter's lock, on any thread.
  void end(uintptr_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = functions_.find(number);
    if (found == functions_.end()) return;
    ended_.push_back(std::move(found->second));
    functions_.erase(found);
  }
  void end_of(c10::Stream stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto next = functions_.begin(); next != functions_.end();) {
      const auto at = next++;
      if (at->second->stream != stream) continue;
      ended_.push_back(std::move(at->second));
      functions_.erase(at);
    }
  }
  // With the interpreter's lock: those that have ended let go of what they hold.
  void bury() {
    std::vector<std::shared_ptr<HostFunction>> ended;  // outlives the lock: an end of Python may come back here
    const std::lock_guard<std::mutex> lock(mutex_);
    ended.swap(ended_);
  }

 private:
  std::mutex mutex_;
  uintptr_t last_ = 0;
  std::map<uintptr_t, std::shared_ptr<HostFunction>> functions_;
  std::vector<std::shared_ptr<HostFunction>> ended_;
};

HostFunctions& functions() {
  static auto* const all = new HostFunctions();  // leaked: streams run until the process is gone
  return *all;
}

uintptr_t number_of(void* state) { return reinterpret_cast<uintptr_t>(state); }
void* state_of(uintptr_t number) { return reinterpret_cast<void*>(number); }

// On the subscribed thread, inside of process_report.
void run(void* state) {
  const auto function = functions().find(number_of(state));
  if (!function) return;  // its launch failed, and has said so
  const py::gil_scoped_acquire gil;
  try {
    const py::object raised = function->call();
    if (!raised.is_none()) function->raised.set(raised.cast<std::string>());
  } catch (const std::exception& error) {
    function->raised.set(error.what());
  }
}

int tell(void* state, char* message, size_t room) {
  const auto function = functions().find(number_of(state));
  const std::string raised = function ? function->raised.take() : std::string();
  if (raised.empty()) return 0;
  std::snprintf(message, room, "%s", raised.c_str());
  return -1;
}

void drop(void* state) { functions().end(number_of(state)); }

void launch(int64_t id, int64_t index, py::object call) {
  const c10::Stream stream = stream_of(id, index);
  functions().bury();
  const uintptr_t number = functions().put(std::move(call), stream);
  const py::gil_scoped_release released;  // a full stream has to be waited for
  const NPUGuard guard(stream.device_index());
  const aclrtStream raw = raw_stream(stream);
  const int status = cann::report_functions().launch(&run, state_of(number), ACL_CALLBACK_BLOCK, raw);
  if (status != 0) {
    functions().end(number);
    cann::throw_status(status, "aclrtLaunchCallback");
  }
  if (const auto launcher = cann::host_kernel_launcher()) {
    const softnpuKernel teller{&tell, &drop, state_of(number), kName, SOFTNPU_TINY};
    NPU_CHECK(launcher(raw, &teller));
  }
}

void subscribe(uint64_t thread, int64_t id, int64_t index) {
  const c10::Stream stream = stream_of(id, index);
  const NPUGuard guard(stream.device_index());
  NPU_CHECK(cann::report_functions().subscribe(thread, raw_stream(stream)));
}

void unsubscribe(uint64_t thread, int64_t id, int64_t index) {
  const c10::Stream stream = stream_of(id, index);
  const NPUGuard guard(stream.device_index());
  NPU_CHECK(cann::report_functions().unsubscribe(thread, raw_stream(stream)));
  if (!cann::host_kernel_launcher()) functions().end_of(stream);
}

// False: no thread is subscribed any more, the caller is to find out why.
bool process(int milliseconds) {
  int status = 0;
  {
    const py::gil_scoped_release released;
    status = cann::report_functions().process(milliseconds);
  }
  functions().bury();
  if (status == ACL_ERROR_RT_THREAD_SUBSCRIBE) return false;
  if (status != 0 && status != ACL_ERROR_RT_REPORT_TIMEOUT) cann::throw_status(status, "aclrtProcessReport");
  return true;
}

}  // namespace

void bind_host_function(pybind11::module& module) {
  module.def("_launch_host_function", with_gil(&launch));
  module.def("_subscribe_report", no_gil(&subscribe));
  module.def("_unsubscribe_report", no_gil(&unsubscribe));
  module.def("_process_report", with_gil(&process));
}

}  // namespace npu::python
