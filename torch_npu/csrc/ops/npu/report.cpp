// See report.h.
#include "csrc/ops/npu/report.h"

#include <ATen/ops/empty.h>

#include <filesystem>
#include <memory>
#include <string_view>
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

void (*reporter)(const Report&) = nullptr;

struct Sent {
  Report report;
  std::vector<at::Tensor> sources;  // what is copied, whole until then
  std::shared_ptr<Sent> itself;     // until it has run once; a graph keeps what it runs again
};

void run(void* state) {
  auto* const sent = static_cast<Sent*>(state);
  const std::shared_ptr<Sent> until_here = std::move(sent->itself);
  if (reporter) reporter(sent->report);
}

void send(const char* op, Report report, at::TensorList tensors) {
  const auto aclrtLaunchHostFunc = cann::host_function_launcher();
  TORCH_CHECK_NOT_IMPLEMENTED(aclrtLaunchHostFunc, op, ": this CANN has no aclrtLaunchHostFunc; install a newer one");
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

void set_reporter(void (*called)(const Report&)) { reporter = called; }

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
