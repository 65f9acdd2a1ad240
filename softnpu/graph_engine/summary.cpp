// See summary.h.
#include "softnpu/graph_engine/summary.h"

#include "softnpu/graph_engine/error.h"

namespace ge {
using softnpu::graph::guarded;

bool CompiledGraphSummary::IsStatic() const { return false; }
uint32_t CompiledGraphSummary::GetConstMemorySize(size_t& bytes) const { return bytes = 0, 0; }
uint32_t CompiledGraphSummary::GetFeatureMemorySize(size_t& bytes) const { return bytes = 0, 0; }
uint32_t CompiledGraphSummary::GetFixedFeatureMemorySize(size_t& bytes) const { return bytes = 0, 0; }
uint32_t CompiledGraphSummary::GetFeatureMemoryBaseRefreshable(bool& refreshable) const {
  return refreshable = true, 0;
}
uint32_t CompiledGraphSummary::GetOutputShapes(std::vector<Shape>& shapes) const {
  return guarded("ge::CompiledGraphSummary::GetOutputShapes", [&] {
    shapes.clear();
    for (const softnpu::graph::Dims& dims : data_->dims) shapes.emplace_back(dims);
  });
}
uint32_t CompiledGraphSummary::GetOutputDtypes(std::vector<DataType>& types) const {
  return guarded("ge::CompiledGraphSummary::GetOutputDtypes", [&] { types = data_->types; });
}

}  // namespace ge
