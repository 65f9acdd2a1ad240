// A group of ranks by its name, and its collectives, as operator types of graphs: libhccl.so's C ABI, looked up in what the process has
// loaded, since the communicator was made there. Each rank of the group runs the node; all is queued on the step's stream.
#pragma once

#include "hccl/types.h"
#include "softnpu/graph_engine/step.h"

namespace softnpu::graph {

class Group {
 public:
  // Throws Error where no communicator of the process has that name.
  Group(Step& step, const std::string& name);

  void all_reduce(const Value& x, const std::string& reduction, const Value& y) const;
  void all_gather(const Value& x, const Value& y) const;  // along dimension 0
  void reduce_scatter(const Value& x, const std::string& reduction, const Value& y) const;
  void all_to_all(const Value& x, const Value& y) const;                          // equal parts
  std::vector<Value> broadcast(const std::vector<Value>& x, int64_t root) const;  // copies

 private:
  void* at(const Value& value) const;

  Step& step_;
  HcclComm comm_ = nullptr;
  uint32_t ranks_ = 0;
};

}  // namespace softnpu::graph
