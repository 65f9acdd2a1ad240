// See report.h.
#include "csrc/ops/npu/report.h"

#include <ATen/ops/empty.h>
#include <c10/util/Logging.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"
#include "csrc/cann/host_function.h"
#include "csrc/core/device.h"
#include "csrc/core/graph.h"
#include "csrc/core/stream.h"
#include "npu_ops.h"

namespace npu {
namespace {

// Not destroyed: streams may hand over until the process is gone.
struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Report> waiting, left;  // left: what came when the program ended, never let go of
  std::thread::id writer;
  bool in_hand = false, closed = false;
  std::atomic<bool> begun{
      false};  // some program has asked for a report: before that nobody waits for one, or for the lock
};
Queue& queue() {
  static Queue& q = *new Queue;
  return q;
}

void (*starter)() = nullptr;
void start_writer() {
  queue().begun = true;
  static std::once_flag once;
  std::call_once(once, [] {
    if (starter) starter();
  });
}

struct Sent {
  Report report;
  std::vector<at::Tensor> sources;  // what is copied, whole until then
  std::shared_ptr<Sent> itself;     // until it has run once; a graph keeps what it runs again
};

// On the stream's thread, which may not throw: without memory a report is lost.
void run(void* state) {
  try {
    auto* const sent = static_cast<Sent*>(state);
    const std::shared_ptr<Sent> once = std::move(sent->itself);
    // Nothing that Python knows is let go of here: that may want its lock, and who waits for this stream may hold it.
    Report report = once ? std::move(sent->report) : sent->report;
    if (once) report.sources = std::move(sent->sources);
    if (!once)
      for (at::Tensor& value : report.values) value = value.clone();  // the next replay writes there again
    Queue& q = queue();
    const std::lock_guard<std::mutex> lock(q.mutex);
    (q.closed ? q.left : q.waiting).push_back(std::move(report));
    q.changed.notify_all();
  } catch (const std::exception& error) {
    LOG(ERROR) << "print_npugraph_tensor, save_npugraph_tensor: " << error.what();
  }
}

void send(const char* op, Report report, at::TensorList tensors) {
  const auto aclrtLaunchHostFunc = cann::host_function_launcher();
  TORCH_CHECK_NOT_IMPLEMENTED(aclrtLaunchHostFunc, op, ": this CANN has no aclrtLaunchHostFunc; install a newer one");
  start_writer();
  const NPUGuard guard(tensors[0].device().index());
  const aclrtStream stream = current_raw_stream();
  Graph* const graph = capturing_graph();
  TORCH_CHECK_NOT_IMPLEMENTED(graph || !is_capturing(current_stream()), op,
                              ": the stream is captured, and not by torch.npu.graph, which would keep what is copied");
  const auto sent = std::make_shared<Sent>(Sent{std::move(report), {}, nullptr});
  sent->report.device = current_stream().device_index();
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor source = tensor.detach().contiguous();
    const at::Tensor value = at::empty(source.sizes(), source.options().device(at::kCPU).pinned_memory(true));
    if (const size_t bytes = source.nbytes()) {
      NPU_CHECK(cann::acl().aclrtMemcpyAsync(value.mutable_data_ptr(), bytes, source.const_data_ptr(), bytes,
                                             ACL_MEMCPY_DEVICE_TO_HOST, stream));
    }
    sent->sources.push_back(source);
    sent->report.values.push_back(value);
  }
  if (graph) {
    graph->keep(sent);
  } else {
    sent->itself = sent;
  }
  const auto status = aclrtLaunchHostFunc(stream, &run, sent.get());
  if (status != ACL_SUCCESS) sent->itself.reset();
  NPU_CHECK(status);
}

std::optional<std::string> text_of(std::optional<std::string_view> text) {
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

Report saving(Report::Kind kind, std::optional<std::string_view> path, bool overwrite) {
  if (path) {
    const std::filesystem::path file(*path);
    TORCH_CHECK_VALUE(file.has_filename() && file.has_extension(), "save_npugraph_tensor: save_path \"", *path,
                      "\" names no file with an ending, such as tensor.pt");
    TORCH_CHECK_VALUE(!file.has_parent_path() || std::filesystem::is_directory(file.parent_path()),
                      "save_npugraph_tensor: there is no folder ", file.parent_path().string(), "; make it first");
  }
  return {kind, {}, text_of(path), overwrite};
}

}  // namespace

void set_report_starter(void (*start)()) { starter = start; }

std::optional<Report> next_report() {
  Queue& q = queue();
  std::unique_lock<std::mutex> lock(q.mutex);
  q.writer = std::this_thread::get_id();
  q.in_hand = false;
  q.changed.notify_all();
  q.changed.wait(lock, [&] { return q.closed || !q.waiting.empty(); });
  if (q.waiting.empty()) return std::nullopt;
  Report next = std::move(q.waiting.front());
  q.waiting.pop_front();
  q.in_hand = true;
  return next;
}

void drain_reports() {
  Queue& q = queue();
  if (!q.begun) return;
  std::unique_lock<std::mutex> lock(q.mutex);
  if (q.writer == std::this_thread::get_id()) return;
  q.changed.wait(lock, [&] { return q.waiting.empty() && !q.in_hand; });
}

void close_reports() {
  Queue& q = queue();
  const std::lock_guard<std::mutex> lock(q.mutex);
  q.closed = true;
  q.changed.notify_all();
}

namespace ops::kernels {

void print_tensor(const at::Tensor& input, std::optional<std::string_view> tensor_name) {
  send("print_npugraph_tensor", {Report::Kind::kPrint, {}, text_of(tensor_name)}, input);
}

void save_tensor(const at::Tensor& input, std::optional<std::string_view> save_path, bool overwrite) {
  send("save_npugraph_tensor", saving(Report::Kind::kSave, save_path, overwrite), input);
}

void save_tensors(at::TensorList input, std::optional<std::string_view> save_path, bool overwrite) {
  send("save_npugraph_tensor", saving(Report::Kind::kSaveList, save_path, overwrite), input);
}

}  // namespace ops::kernels
}  // namespace npu
