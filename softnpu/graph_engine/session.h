// ge::Session and what is compiled in it: the border of libge_runner. Its layout is a number alone, allocated by the client; what the
// number stands for is kept in session.cpp. Thread safety: any function from any thread; runs of one graph follow each other.
#pragma once

#include <map>
#include <memory>

#include "softnpu/graph_engine/allocator.h"
#include "softnpu/graph_engine/ascend_string.h"
#include "softnpu/graph_engine/graph.h"
#include "softnpu/graph_engine/tensor.h"

namespace ge {

using Options = std::map<AscendString, AscendString>;

class CompiledGraphSummary;

GE_EXPORT uint32_t GEInitialize(const Options& options);
GE_EXPORT uint32_t GEFinalize();
GE_EXPORT AscendString GEGetWarningMsgV2();

class GE_EXPORT Session {
 public:
  explicit Session(const Options& options);
  ~Session();
  uint32_t AddGraph(uint32_t id, const Graph& graph, const Options& options);
  uint32_t RemoveGraph(uint32_t id);
  uint32_t CompileGraph(uint32_t id);
  std::shared_ptr<CompiledGraphSummary> GetCompiledGraphSummary(uint32_t id);
  // Values come from the allocator that is registered for the stream; what is given must live until the stream has passed.
  uint32_t RegisterExternalAllocator(const void* stream, std::shared_ptr<Allocator> allocator) const;
  uint32_t RunGraphWithStreamAsync(uint32_t id, void* stream, const std::vector<Tensor>& inputs,
                                   std::vector<Tensor>& outputs);
  // On a stream of the session's own, to the end; results on the host.
  uint32_t RunGraph(uint32_t id, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs);
  // Memory of fixed size that a compiled graph would need: none, so what is given is not used.
  uint32_t SetGraphConstMemoryBase(uint32_t id, const void* memory, size_t bytes);
  uint32_t SetGraphFixedFeatureMemoryBase(uint32_t id, const void* memory, size_t bytes);
  uint32_t UpdateGraphFeatureMemoryBase(uint32_t id, const void* memory, size_t bytes);
  uint32_t UpdateGraphRefreshableFeatureMemoryBase(uint32_t id, const void* memory, size_t bytes);

 private:
  uint64_t id_ = 0;
};
static_assert(sizeof(Session) == 8);

}  // namespace ge
