// ge::CompiledGraphSummary: what a client asks of a compiled graph. Every graph is dynamic: its shapes are found while it runs, its
// memory is allocated value by value.
#pragma once

#include <memory>
#include <vector>

#include "softnpu/graph_engine/tensor.h"

namespace ge {

struct SummaryData {
  std::vector<softnpu::graph::Dims> dims;  // of the results, as declared: -1 where unknown
  std::vector<DataType> types;
};

class GE_EXPORT CompiledGraphSummary {
 public:
  explicit CompiledGraphSummary(std::shared_ptr<SummaryData> data) : data_(std::move(data)) {}
  bool IsStatic() const;
  uint32_t GetConstMemorySize(size_t& bytes) const;
  uint32_t GetFeatureMemorySize(size_t& bytes) const;
  uint32_t GetFixedFeatureMemorySize(size_t& bytes) const;
  uint32_t GetFeatureMemoryBaseRefreshable(bool& refreshable) const;
  uint32_t GetOutputShapes(std::vector<Shape>& shapes) const;
  uint32_t GetOutputDtypes(std::vector<DataType>& types) const;

 private:
  std::shared_ptr<SummaryData> data_;
};
static_assert(sizeof(CompiledGraphSummary) == 16);

}  // namespace ge
