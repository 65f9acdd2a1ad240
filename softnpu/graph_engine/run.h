// One run of a compiled graph on a lane: values of inputs in, values of the result out. Everything is queued on the lane's stream; it
// waits for the stream only where a shape depends on what a tensor holds. Values are given back after their last use is queued.
#pragma once

#include <vector>

#include "softnpu/graph_engine/lane.h"
#include "softnpu/graph_engine/program.h"

namespace softnpu::graph {

// Throws Error that begins with the node and its type.
std::vector<Value> run(Program& program, Lane& lane, const std::vector<Value>& inputs);

}  // namespace softnpu::graph
