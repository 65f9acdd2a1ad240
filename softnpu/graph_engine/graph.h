// ge::Graph and ge::GNode: a graph as its client holds it. What it is not: a graph that a session runs (session.h).
#pragma once

#include <memory>
#include <vector>

#include "softnpu/graph_engine/ascend_string.h"
#include "softnpu/graph_engine/model.h"

namespace ge {

struct GraphImpl {
  std::string name;
  std::shared_ptr<const softnpu::graph::Model> model;
  std::string bytes;  // what it was read from, for SaveToFile
};

struct NodeImpl {
  std::shared_ptr<const softnpu::graph::Model> model;
  const softnpu::graph::Node* node;
};

class GE_EXPORT GNode {
 public:
  explicit GNode(std::shared_ptr<NodeImpl> impl) : impl_(std::move(impl)) {}
  uint32_t GetType(AscendString& type) const;

 private:
  std::shared_ptr<NodeImpl> impl_;
};

class GE_EXPORT Graph {
 public:
  explicit Graph(const char* name);
  uint32_t LoadFromSerializedModelArray(const void* bytes, size_t size);
  uint32_t CopyFrom(const Graph& other);
  uint32_t SaveToFile(const char* path) const;
  std::vector<GNode> GetAllNodes() const;

  // The room's own: null until bytes were loaded.
  std::shared_ptr<const softnpu::graph::Model> model() const { return impl_ ? impl_->model : nullptr; }

 private:
  std::shared_ptr<GraphImpl> impl_;  // null in a graph that a client made by default
};
static_assert(sizeof(Graph) == 16 && sizeof(GNode) == 16);

}  // namespace ge
