// A graph in memory: nodes, what feeds them, their attributes. Made of bytes by read_model; never changed after that, so any number of
// threads may read it. What it is not: what a node computes (ops/ge.yaml), or a run of it (run.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "softnpu/graph_engine/error.h"
#include "softnpu/graph_engine/types.h"

namespace softnpu::graph {

struct Description {
  std::string name;
  aclDataType type = ACL_DT_UNDEFINED;
  Dims dims;
};

// A constant: data of exactly the elements that the description says.
struct Literal {
  Description description;
  std::string data;
};

using Attribute =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<bool>, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string>, std::shared_ptr<const Literal>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

// An input of a node: which output of which node. A negative node: the input is left out.
struct Source {
  int node = -1;
  int output = 0;
  std::string name;  // "x1", "x0" of a list
};

struct Node {
  std::string name, type;
  std::vector<Source> inputs;
  std::vector<int> after;  // control edges: nodes that run before
  std::vector<Description> outputs;
  Attributes attributes;

  // "node 'Add_1' (Add)", how errors begin.
  std::string title() const { return "node '" + name + "' (" + type + ")"; }
};

struct Model {
  std::string name;
  std::vector<Node> nodes;  // as they stand in the bytes
  std::vector<int> order;   // in which they run: as they stand, but each after what it needs
};

// Reads a serialized ModelDef of one graph; finds each input's node and the order. Throws Error that names what is wrong.
std::shared_ptr<const Model> read_model(std::string_view bytes);

// The order of nodes, the earliest in the list first. Throws Error that names a node of a circle.
std::vector<int> order_of(const std::vector<Node>& nodes);

}  // namespace softnpu::graph
