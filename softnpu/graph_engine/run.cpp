// See run.h.
#include "softnpu/graph_engine/run.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace softnpu::graph {
namespace {

void check_input(const Node& node, const Value& value) {
  if (node.outputs.empty()) return;
  const Description& wanted = node.outputs[0];
  if (wanted.type != ACL_DT_UNDEFINED && wanted.type != value.type)
    throw Error(node.title() + ": it is declared as " + name_of(wanted.type) + ", and the input is " +
                name_of(value.type));
  const bool open = wanted.dims.size() == 1 && wanted.dims[0] == -2;  // of any rank
  bool fits = open || wanted.dims.size() == value.dims.size();
  for (size_t i = 0; fits && !open && i < wanted.dims.size(); i++)
    fits = wanted.dims[i] < 0 || wanted.dims[i] == value.dims[i];
  if (!fits)
    throw Error(node.title() + ": it is declared with shape " + text_of(wanted.dims) + ", and the input has " +
                text_of(value.dims));
}

}  // namespace

std::vector<Value> run(Program& program, Lane& lane, const std::vector<Value>& inputs) {
  std::vector<Part>& parts = program.parts();
  std::vector<std::vector<Value>> values(parts.size());
  std::vector<std::vector<int>> left(parts.size());
  for (size_t i = 0; i < parts.size(); i++) left[i] = parts[i].uses;
  std::vector<Value> result;
  for (int index : program.model().order) {
    Part& part = parts[static_cast<size_t>(index)];
    const Node& node = *part.node;
    std::vector<Value>& made = values[static_cast<size_t>(index)];
    if (part.input >= 0) {
      const Value& value = inputs[static_cast<size_t>(part.input)];
      check_input(node, value);
      if (part.varies) {  // one that lies on the host varies in its copy on the device
        lane.address(value);
        value.storage->device->clients = value.storage->device->varies = true;
      }
      made = {value};
      made[0].variable = true;
      continue;
    }
    if (part.constant) {
      made = {part.constant};
      continue;
    }
    std::vector<Value> taken(node.inputs.size());
    for (size_t i = 0; i < taken.size(); i++) {
      const Source& source = node.inputs[i];
      if (source.node < 0) continue;
      const size_t from = static_cast<size_t>(source.node), output = static_cast<size_t>(source.output);
      if (output >= values[from].size() || !values[from][output])
        throw Error(node.title() + ": input " + std::to_string(i) + " is output " + std::to_string(output) + " of " +
                    parts[from].node->title() + ", which gave none");
      // The last user gets the only reference.
      Value& value = values[from][output];
      taken[i] = --left[from][output] ? value : std::move(value);
      if (!left[from][output]) value = {};
    }
    if (!part.row) {
      std::copy_if(taken.begin(), taken.end(), std::back_inserter(result),
                   [](const Value& value) { return bool(value); });
      continue;
    }
    try {
      Step step(lane, node, part.bound, taken);
      part.row->run(step);
      made = std::move(step.outputs());
    } catch (const std::bad_alloc&) {
      throw Error(node.title() + ": the host has not enough memory");
    } catch (const std::length_error&) {
      throw Error(node.title() + ": a list that is longer than memory holds");
    } catch (const std::exception& error) {
      throw Error(node.title() + ": " + error.what());
    }
    made.resize(std::max(made.size(), part.uses.size()));
    for (size_t i = 0; i < part.uses.size(); i++)
      if (!part.uses[i]) made[i] = {};
  }
  return result;
}

}  // namespace softnpu::graph
