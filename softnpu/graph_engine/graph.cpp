// See graph.h.
#include "softnpu/graph_engine/graph.h"

#include <fstream>

namespace ge {
using softnpu::graph::Error;
using softnpu::graph::guarded;

uint32_t GNode::GetType(AscendString& type) const {
  return guarded("ge::GNode::GetType", [&] { type = AscendString(impl_->node->type.c_str()); });
}

Graph::Graph(const char* name) : impl_(std::make_shared<GraphImpl>()) { impl_->name = name ? name : ""; }

uint32_t Graph::LoadFromSerializedModelArray(const void* bytes, size_t size) {
  return guarded("ge::Graph::LoadFromSerializedModelArray", [&] {
    if (!bytes) throw Error("the serialized graph is a null pointer");
    auto loaded = std::make_shared<GraphImpl>();
    loaded->bytes.assign(static_cast<const char*>(bytes), size);
    loaded->model = softnpu::graph::read_model(loaded->bytes);
    loaded->name = impl_ && !impl_->name.empty() ? impl_->name : loaded->model->name;
    impl_ = std::move(loaded);
  });
}

uint32_t Graph::CopyFrom(const Graph& other) {
  return guarded("ge::Graph::CopyFrom", [&] {
    if (!other.impl_) throw Error("the graph to copy is empty");
    const std::string name = impl_ ? impl_->name : other.impl_->name;
    impl_ = std::make_shared<GraphImpl>(*other.impl_);
    impl_->name = name;
  });
}

uint32_t Graph::SaveToFile(const char* path) const {
  return guarded("ge::Graph::SaveToFile", [&] {
    if (!path || !impl_ || !impl_->model) throw Error("no path, or an empty graph");
    std::ofstream file(path, std::ios::binary);
    file.write(impl_->bytes.data(), static_cast<std::streamsize>(impl_->bytes.size()));
    if (!file.flush()) throw Error(std::string("cannot write ") + path);
  });
}

std::vector<GNode> Graph::GetAllNodes() const {
  std::vector<GNode> nodes;
  if (const auto model = this->model())
    for (const softnpu::graph::Node& node : model->nodes)
      nodes.emplace_back(std::make_shared<NodeImpl>(NodeImpl{model, &node}));
  return nodes;
}

}  // namespace ge
