// A graph of a session: its model, its program once it is compiled, and what its runs keep. Turns tensors at the border into values and
// back. What it is not: the session's table of graphs (session.cpp).
#pragma once

#include <memory>
#include <mutex>

#include "softnpu/graph_engine/program.h"
#include "softnpu/graph_engine/run.h"
#include "softnpu/graph_engine/tensor.h"

namespace softnpu::graph {

class Compiled {
 public:
  explicit Compiled(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  const Model& model() const { return *model_; }
  // Once; later calls find it done.
  void compile();
  // Queues a run; the results' memory goes to the outputs, or into the memory that they have. One run at a time; others wait.
  void run(aclrtStream stream, std::shared_ptr<ge::Allocator> allocator, const std::vector<ge::Tensor>& inputs,
           std::vector<ge::Tensor>& outputs);
  // To the end, with results on the host, where inputs that the graph writes are written, too.
  void run_here(aclrtStream stream, const std::vector<ge::Tensor>& inputs, std::vector<ge::Tensor>& outputs);

 private:
  std::shared_ptr<const Model> model_;
  std::mutex mutex_;  // over all below; taken before nothing
  std::unique_ptr<Program> program_;
  Keeper keeper_;
};

}  // namespace softnpu::graph
