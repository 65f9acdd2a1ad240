// A row of ops/ge.yaml: an operator type's signature and what runs for it. Generated into the build tree. Who asks: program.cpp.
#pragma once

#include "softnpu/graph_engine/signature.h"
#include "softnpu/graph_engine/step.h"
#include "softnpu/graph_engine/windows.h"

namespace softnpu::graph {

struct Row {
  Signature signature;
  void (*run)(Step& step);
  int writes;  // a bit for each input that it writes in place
};

// Null for a type that has no row.
const Row* row_of(std::string_view type) noexcept;

}  // namespace softnpu::graph
