// What operator types take and give: generated from ops/ge.yaml into the build tree. Who asks: ge::OperatorFactory, by
// which clients find out what exists, and the executor, which binds a node's inputs by their names.
#pragma once

#include <span>
#include <string_view>

namespace softnpu::graph {

enum class Kind : char { kRequired, kOptional, kMany };

struct Parameter {
  const char* name;
  Kind kind;
};

struct Signature {
  const char* type;
  std::span<const Parameter> inputs, outputs;
  std::span<const char* const> attributes;
};

// Null for a type that has no row.
const Signature* signature_of(std::string_view type) noexcept;

}  // namespace softnpu::graph
