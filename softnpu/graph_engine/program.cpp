// See program.h.
#include "softnpu/graph_engine/program.h"

#include <algorithm>
#include <set>

namespace softnpu::graph {
namespace {

bool is_input(const Node& node) { return node.type == "Data" || node.type == "RefData"; }
bool is_constant(const Node& node) { return node.type == "Const" || node.type == "Constant"; }

Value constant_of(const Node& node) {
  const auto found = node.attributes.find("value");
  const auto* literal =
      found == node.attributes.end() ? nullptr : std::get_if<std::shared_ptr<const Literal>>(&found->second);
  if (!literal) throw Error(node.title() + ": attribute 'value' is no tensor");
  auto storage = std::make_shared<Storage>();
  storage->constant = true;
  storage->host = std::shared_ptr<const std::string>(*literal, &(*literal)->data);
  return dense_value({(*literal)->description.type, (*literal)->description.dims}, std::move(storage));
}

// "x12" of a list "x".
bool member_of(const std::string& name, std::string_view list) {
  return name.size() > list.size() && name.starts_with(list) &&
         std::all_of(name.begin() + static_cast<ptrdiff_t>(list.size()), name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

// Formats that a node wants, by the number of its input or output.
void need_layouts(const Node& node, const std::string& name, const Attribute& value) {
  const auto* layouts = std::get_if<std::vector<std::string>>(&value);
  for (const std::string& layout : layouts ? *layouts : std::vector<std::string>())
    if (layout != "ND" && layout != "NCL" && layout != "NCHW" && layout != "NCDHW")
      throw Error(node.title() + ": attribute '" + name + "' names " + layout +
                  ": ND, NCL, NCHW and NCDHW are supported");
}

std::string missing_types(const Model& model, const Node& first) {
  std::set<std::string> others;
  for (const Node& node : model.nodes)
    if (!row_of(node.type) && !is_input(node) && !is_constant(node) && node.type != "NetOutput" &&
        node.type != first.type)
      others.insert(node.type);
  std::string text;
  for (const std::string& type : others) text += (text.empty() ? "; nor of this graph's types " : ", ") + type;
  return text;
}

}  // namespace

Program::Program(std::shared_ptr<const Model> model) : model_(std::move(model)), parts_(model_->nodes.size()) {
  std::set<int> indices;
  for (size_t i = 0; i < parts_.size(); i++) {
    const Node& node = model_->nodes[i];
    Part& part = parts_[i];
    part.node = &node;
    part.uses.resize(std::max<size_t>(node.outputs.size(), 1));
    for (const Source& source : node.inputs) {
      if (source.node < 0) continue;
      std::vector<int>& uses = parts_[static_cast<size_t>(source.node)].uses;
      if (uses.size() <= static_cast<size_t>(source.output)) uses.resize(static_cast<size_t>(source.output) + 1);
      uses[static_cast<size_t>(source.output)]++;
    }
    if (is_input(node)) {
      const auto found = node.attributes.find("index");
      const int64_t* index = found == node.attributes.end() ? nullptr : std::get_if<int64_t>(&found->second);
      if (!index || *index < 0 || *index > 1 << 20) throw Error(node.title() + ": it has no index among the inputs");
      part.input = static_cast<int>(*index);
      if (!indices.insert(part.input).second)
        throw Error(node.title() + ": another node is input " + std::to_string(part.input));
      inputs_ = std::max(inputs_, static_cast<size_t>(part.input) + 1);
    } else if (is_constant(node)) {
      part.constant = constant_of(node);
    } else if (node.type == "NetOutput") {
      if (result_) throw Error(node.title() + ": a second result of the graph");
      result_ = &node;
    } else {
      bind(part);
    }
  }
  for (Part& part : parts_) {
    if (!part.row) continue;
    for (size_t place = 0; place < part.bound.size(); place++) {
      if (!(part.row->writes >> place & 1)) continue;
      for (int position : part.bound[place]) {
        const Source& source = part.node->inputs[static_cast<size_t>(position)];
        if (source.node >= 0) parts_[static_cast<size_t>(source.node)].varies = true;
      }
    }
  }
}

void Program::bind(Part& part) {
  const Node& node = *part.node;
  part.row = row_of(node.type);
  if (!part.row)
    throw Error(node.title() + ": the software NPU's graph engine has no operator type " + node.type +
                missing_types(*model_, node) + ". Run the model eagerly, or with the backend npugraph_ex");
  const auto known = part.row->signature.attributes;
  for (const auto& [name, value] : node.attributes) {
    if (name.starts_with('_')) continue;  // notes of who made the graph
    if (name == "input_layout_info" || name == "output_layout_info") {
      need_layouts(node, name, value);
      continue;
    }
    if (std::none_of(known.begin(), known.end(), [&name = name](const char* one) { return name == one; }))
      throw Error(node.title() + ": attribute '" + name + "' is not supported");
  }
  const auto inputs = part.row->signature.inputs;
  part.bound.resize(inputs.size());
  for (size_t i = 0; i < node.inputs.size(); i++) {
    const Source& source = node.inputs[i];
    size_t place = 0;
    while (place < inputs.size() && (inputs[place].kind == Kind::kMany ? !member_of(source.name, inputs[place].name)
                                                                       : source.name != inputs[place].name))
      place++;
    if (place < inputs.size()) {
      if (source.node >= 0) part.bound[place].push_back(static_cast<int>(i));
    } else if (source.node >= 0) {
      throw Error(node.title() + ": input " + std::to_string(i) + " '" + source.name + "' is not supported");
    }
  }
  for (size_t place = 0; place < inputs.size(); place++) {
    if (inputs[place].kind == Kind::kRequired && part.bound[place].empty())
      throw Error(node.title() + ": input '" + inputs[place].name + "' is missing");
    if (inputs[place].kind != Kind::kMany && part.bound[place].size() > 1)
      throw Error(node.title() + ": input '" + inputs[place].name + "' is given twice");
  }
}

}  // namespace softnpu::graph
