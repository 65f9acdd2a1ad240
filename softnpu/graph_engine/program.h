// A compiled graph: each node with its row and its inputs bound, constants, how often each value is used. Made once, from a model, for
// any number of runs. What it is not: a run (run.h). Read by runs, one at a time (their owner sees to that), which put constants on the device.
#pragma once

#include <memory>
#include <vector>

#include "softnpu/graph_engine/model.h"
#include "softnpu/graph_engine/row.h"

namespace softnpu::graph {

struct Part {
  const Node* node;
  const Row* row = nullptr;  // null for those that have no kernel: Data, constants, NetOutput
  Bound bound;
  std::vector<int> uses;  // of each output, by data edges
  int input = -1;         // Data: which input of the graph
  bool varies = false;    // Data: some node writes it in place
  Value constant;
};

class Program {
 public:
  // Throws Error that names the node and its type: a type without a row, an input that is missing or unknown to the row.
  explicit Program(std::shared_ptr<const Model> model);

  const Model& model() const { return *model_; }
  std::vector<Part>& parts() { return parts_; }
  size_t inputs() const { return inputs_; }
  const Node* result() const { return result_; }  // NetOutput; null in a graph without

 private:
  void bind(Part& part);

  std::shared_ptr<const Model> model_;
  std::vector<Part> parts_;
  size_t inputs_ = 0;
  const Node* result_ = nullptr;
};

}  // namespace softnpu::graph
