// See session.h.
#include "softnpu/graph_engine/session.h"

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "acl/api.h"
#include "softnpu/graph_engine/compiled.h"
#include "softnpu/graph_engine/error.h"
#include "softnpu/graph_engine/summary.h"

namespace ge {
using softnpu::graph::Compiled;
using softnpu::graph::Error;
using softnpu::graph::guarded;

namespace {

// What a session's number stands for.
struct State {
  std::mutex mutex;  // over all below; not held while a graph runs
  std::map<uint32_t, std::shared_ptr<Compiled>> graphs;
  std::map<const void*, std::shared_ptr<Allocator>> allocators;
  aclrtStream stream = nullptr;  // of RunGraph
  int device = -1;

  ~State() {
    graphs.clear();
    if (stream) aclrtDestroyStream(stream);
  }
  std::shared_ptr<Compiled> find(uint32_t id) {
    const std::lock_guard lock(mutex);
    const auto found = graphs.find(id);
    if (found == graphs.end()) throw Error("the session has no graph " + std::to_string(id));
    return found->second;
  }
};

struct Sessions {
  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<State>> states;
  uint64_t next = 1;
};
Sessions& sessions() {
  static auto* const made = new Sessions;  // not destroyed: clients end sessions while the process exits
  return *made;
}

std::shared_ptr<State> state_of(uint64_t id) {
  const std::lock_guard lock(sessions().mutex);
  const auto found = sessions().states.find(id);
  if (found == sessions().states.end()) throw Error("the session is not there any more");
  return found->second;
}

int device_of(const Options& options) {
  for (const char* name : {"ge.session_device_id", "ge.exec.deviceId"})
    for (const auto& [key, value] : options)
      if (std::string_view(key.GetString()) == name) return std::atoi(value.GetString());
  return -1;
}

}  // namespace

uint32_t GEInitialize(const Options&) { return 0; }
uint32_t GEFinalize() { return 0; }
AscendString GEGetWarningMsgV2() { return AscendString(""); }

Session::Session(const Options& options) {
  auto state = std::make_shared<State>();
  state->device = device_of(options);
  const std::lock_guard lock(sessions().mutex);
  id_ = sessions().next++;
  sessions().states.emplace(id_, std::move(state));
}

Session::~Session() {
  std::shared_ptr<State> state;  // its end waits for streams: without the lock
  const std::lock_guard lock(sessions().mutex);
  const auto found = sessions().states.find(id_);
  if (found == sessions().states.end()) return;
  state = std::move(found->second);
  sessions().states.erase(found);
}

uint32_t Session::AddGraph(uint32_t id, const Graph& graph, const Options& options) {
  return guarded("ge::Session::AddGraph", [&] {
    for (const auto& [key, value] : options)
      if (std::string_view(key.GetString()) == "ge.exec.enableDump" && std::string_view(value.GetString()) == "1")
        throw Error("ge.exec.enableDump: the software NPU's graph engine writes no dumps");
    if (!graph.model()) throw Error("graph " + std::to_string(id) + " is empty");
    const auto state = state_of(id_);
    const std::lock_guard lock(state->mutex);
    if (!state->graphs.emplace(id, std::make_shared<Compiled>(graph.model())).second)
      throw Error("the session has a graph " + std::to_string(id) + " already");
  });
}

uint32_t Session::RemoveGraph(uint32_t id) {
  return guarded("ge::Session::RemoveGraph", [&] {
    const auto state = state_of(id_);
    const auto graph = state->find(id);  // ends after the lock
    const std::lock_guard lock(state->mutex);
    state->graphs.erase(id);
  });
}

uint32_t Session::CompileGraph(uint32_t id) {
  return guarded("ge::Session::CompileGraph", [&] { state_of(id_)->find(id)->compile(); });
}

std::shared_ptr<CompiledGraphSummary> Session::GetCompiledGraphSummary(uint32_t id) {
  std::shared_ptr<CompiledGraphSummary> summary;
  guarded("ge::Session::GetCompiledGraphSummary", [&] {
    const auto graph = state_of(id_)->find(id);
    auto data = std::make_shared<SummaryData>();
    for (const softnpu::graph::Node& node : graph->model().nodes) {
      if (node.type != "NetOutput") continue;
      for (const softnpu::graph::Source& source : node.inputs) {
        if (source.node < 0) continue;
        const auto& outputs = graph->model().nodes[static_cast<size_t>(source.node)].outputs;
        const size_t output = static_cast<size_t>(source.output);
        const bool known = output < outputs.size();
        data->dims.push_back(known ? outputs[output].dims : softnpu::graph::Dims{-2});
        data->types.push_back(static_cast<DataType>(known ? outputs[output].type : ACL_DT_UNDEFINED));
      }
    }
    summary = std::make_shared<CompiledGraphSummary>(std::move(data));
  });
  return summary;
}

uint32_t Session::RegisterExternalAllocator(const void* stream, std::shared_ptr<Allocator> allocator) const {
  return guarded("ge::Session::RegisterExternalAllocator", [&] {
    const auto state = state_of(id_);
    const std::lock_guard lock(state->mutex);
    state->allocators[stream] = std::move(allocator);
  });
}

uint32_t Session::RunGraphWithStreamAsync(uint32_t id, void* stream, const std::vector<Tensor>& inputs,
                                          std::vector<Tensor>& outputs) {
  return guarded("ge::Session::RunGraphWithStreamAsync", [&] {
    const auto state = state_of(id_);
    const auto graph = state->find(id);
    std::shared_ptr<Allocator> allocator;
    {
      const std::lock_guard lock(state->mutex);
      if (const auto found = state->allocators.find(stream); found != state->allocators.end())
        allocator = found->second;
    }
    graph->run(stream, std::move(allocator), inputs, outputs);
  });
}

uint32_t Session::RunGraph(uint32_t id, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
  return guarded("ge::Session::RunGraph", [&] {
    const auto state = state_of(id_);
    const auto graph = state->find(id);
    aclrtStream stream = nullptr;
    {
      const std::lock_guard lock(state->mutex);
      if (state->device >= 0) softnpu::graph::check(aclrtSetDevice(state->device), "aclrtSetDevice");
      if (!state->stream) softnpu::graph::check(aclrtCreateStream(&state->stream), "aclrtCreateStream");
      stream = state->stream;
    }
    graph->run_here(stream, inputs, outputs);
  });
}

uint32_t Session::SetGraphConstMemoryBase(uint32_t, const void*, size_t) { return 0; }
uint32_t Session::SetGraphFixedFeatureMemoryBase(uint32_t, const void*, size_t) { return 0; }
uint32_t Session::UpdateGraphFeatureMemoryBase(uint32_t, const void*, size_t) { return 0; }
uint32_t Session::UpdateGraphRefreshableFeatureMemoryBase(uint32_t, const void*, size_t) { return 0; }

}  // namespace ge
