// Messages of the serialized graph (ge_ir.proto: ModelDef, GraphDef, OpDef, AttrDef, TensorDef, TensorDescriptor) and what a graph needs
// of them. Fields that mean nothing for running a graph are passed over. See model.h.
#include <charconv>
#include <unordered_map>

#include "softnpu/graph_engine/model.h"
#include "softnpu/graph_engine/wire.h"

namespace softnpu::graph {
namespace {

// An entry of a map: a string and a message.
template <typename Value>
void read_entry(std::string_view bytes, const Wire& outer, Value value) {
  Wire wire(bytes, "attribute", &outer);
  std::string_view key, body;
  while (wire.next()) {
    if (wire.field() == 1) wire.call_it(key = wire.bytes());
    if (wire.field() == 2) body = wire.bytes();
  }
  value(key, body, wire);
}

Description read_description(std::string_view bytes, const Wire& outer) {
  Description found;
  Wire wire(bytes, "TensorDescriptor", &outer);
  while (wire.next()) {
    switch (wire.field()) {
      case 1:
        wire.call_it(found.name = wire.bytes());
        break;
      case 2:
        found.type = type_of_proto(wire.integer());
        break;
      case 3: {
        Wire shape(wire.bytes(), "ShapeDef", &wire);
        while (shape.next())
          if (shape.field() == 1) shape.integers([&](int64_t dim) { found.dims.push_back(dim); });
        break;
      }
    }
  }
  return found;
}

std::shared_ptr<const Literal> read_literal(std::string_view bytes, const Wire& outer) {
  auto found = std::make_shared<Literal>();
  Wire wire(bytes, "TensorDef", &outer);
  while (wire.next()) {
    if (wire.field() == 1) found->description = read_description(wire.bytes(), wire);
    if (wire.field() == 2) found->data = wire.bytes();
  }
  const Description& description = found->description;
  const int64_t elements = elements_of(description.dims), size = bytes_of(description.type);
  if (!size) wire.fail("a constant of " + name_of(description.type));
  int64_t wanted = 0;
  if (elements < 0 || __builtin_mul_overflow(elements, size, &wanted))
    wire.fail("a constant of shape " + text_of(description.dims));
  // Storage may be longer than the tensor that begins it.
  if (static_cast<uint64_t>(wanted) > found->data.size())
    wire.fail("a constant of " + std::to_string(wanted) + " bytes with " + std::to_string(found->data.size()));
  found->data.resize(static_cast<size_t>(wanted));
  return found;
}

Attribute read_list(std::string_view bytes, const Wire& outer) {
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<bool> flags;
  std::vector<std::string> texts;
  Wire wire(bytes, "list", &outer);
  while (wire.next()) {
    switch (wire.field()) {
      case 2:
        texts.emplace_back(wire.bytes());
        break;
      case 3:
      case 12:  // data types
        wire.integers([&](int64_t value) { integers.push_back(value); });
        break;
      case 4:
        wire.reals([&](float value) { reals.push_back(value); });
        break;
      case 5:
        wire.integers([&](int64_t value) { flags.push_back(value != 0); });
        break;
    }
  }
  if (!texts.empty()) return texts;
  if (!reals.empty()) return reals;
  if (!flags.empty()) return flags;
  return integers;
}

Attribute read_attribute(std::string_view bytes, const Wire& outer) {
  Attribute found;
  Wire wire(bytes, "AttrDef", &outer);
  while (wire.next()) {
    switch (wire.field()) {
      case 1:
        found = read_list(wire.bytes(), wire);
        break;
      case 2:
      case 7:
        found = std::string(wire.bytes());
        break;
      case 3:
      case 15:  // a data type, as CANN numbers it
        found = wire.integer();
        break;
      case 4:
        found = static_cast<double>(wire.real());
        break;
      case 5:
        found = wire.flag();
        break;
      case 12:
        found = read_literal(wire.bytes(), wire);
        break;
    }
  }
  return found;
}

// A node's inputs as they are written, until all nodes are known.
struct Written {
  std::vector<std::string> inputs, names;
};

Node read_node(std::string_view bytes, const Wire& outer, Written& written) {
  Node node;
  Wire wire(bytes, "op", &outer);
  while (wire.next()) {
    switch (wire.field()) {
      case 1:
        wire.call_it(node.name = wire.bytes());
        break;
      case 2:
        node.type = wire.bytes();
        break;
      case 5:
        written.inputs.emplace_back(wire.bytes());
        break;
      case 10:
        read_entry(wire.bytes(), wire, [&](std::string_view key, std::string_view body, const Wire& entry) {
          node.attributes.insert_or_assign(std::string(key), read_attribute(body, entry));
        });
        break;
      case 33:
        written.names.push_back(read_description(wire.bytes(), wire).name);
        break;
      case 34:
        node.outputs.push_back(read_description(wire.bytes(), wire));
        break;
    }
  }
  if (node.name.empty()) wire.fail("an op without a name");
  if (node.type.empty()) wire.fail("an op without a type");
  return node;
}

// "name:index" -> the node and the output; -1 is a control edge.
void connect(Node& node, const Written& written, const std::vector<Node>& nodes,
             const std::unordered_map<std::string_view, int>& index) {
  size_t described = 0;
  for (size_t i = 0; i < written.inputs.size(); i++) {
    const std::string& text = written.inputs[i];
    const auto fail = [&](const std::string& what) {
      throw Error(node.title() + ": input " + std::to_string(i) + " '" + text.substr(0, 128) + "' " + what);
    };
    Source source;
    const bool described_here = described < written.names.size();
    if (!text.empty()) {
      const size_t colon = text.rfind(':');
      int output = 0;
      if (colon == std::string::npos) fail("has no ':' and output");
      const char* const end = text.data() + text.size();
      const auto [stopped, error] = std::from_chars(text.data() + colon + 1, end, output);
      if (error != std::errc() || stopped != end || output < -1) fail("names no output");
      const auto found = index.find(std::string_view(text).substr(0, colon));
      if (found == index.end()) fail("names no node of the graph");
      if (output == -1) {
        node.after.push_back(found->second);
        continue;
      }
      const Node& from = nodes[static_cast<size_t>(found->second)];
      if (!from.outputs.empty() && static_cast<size_t>(output) >= from.outputs.size())
        fail("names an output that " + from.title() + " does not have: it has " + std::to_string(from.outputs.size()));
      source.node = found->second, source.output = output;
    }
    if (described_here) source.name = written.names[described++];
    node.inputs.push_back(std::move(source));
  }
}

std::shared_ptr<Model> read_graph(std::string_view bytes, const Wire& outer) {
  auto model = std::make_shared<Model>();
  std::vector<Written> written;
  Wire wire(bytes, "GraphDef", &outer);
  while (wire.next()) {
    if (wire.field() == 1) wire.call_it(model->name = wire.bytes());
    if (wire.field() == 6) {
      Written inputs;
      model->nodes.push_back(read_node(wire.bytes(), wire, inputs));
      written.push_back(std::move(inputs));
    }
  }
  std::unordered_map<std::string_view, int> index;
  for (size_t i = 0; i < model->nodes.size(); i++)
    if (!index.emplace(model->nodes[i].name, static_cast<int>(i)).second)
      throw Error(model->nodes[i].title() + ": another node of the graph has that name");
  for (size_t i = 0; i < model->nodes.size(); i++) connect(model->nodes[i], written[i], model->nodes, index);
  model->order = order_of(model->nodes);
  return model;
}

}  // namespace

std::shared_ptr<const Model> read_model(std::string_view bytes) {
  std::shared_ptr<Model> model;
  Wire wire(bytes, "ModelDef");
  while (wire.next()) {
    if (wire.field() != 7) continue;
    if (model) wire.fail("a second graph: graphs inside of graphs are not supported by the software NPU");
    model = read_graph(wire.bytes(), wire);
  }
  if (!model) wire.fail("no graph in it");
  return model;
}

}  // namespace softnpu::graph
