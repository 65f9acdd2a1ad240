// The syntax tree of one Python file as a flat array in source order, made from tree-sitter's. Navigation is by index;
// every pass works on it and none sees tree-sitter. Nodes keep byte ranges of the source, never copies of it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "migrate/src/source.h"

namespace migrate {

enum class Kind : uint8_t {
  kOther,
#define MIGRATE_KIND(name, text) k##name,
#include "migrate/src/kinds.inc"
#undef MIGRATE_KIND
};

enum class Field : uint8_t {
  kNone,
#define MIGRATE_FIELD(name, text) k##name,
#include "migrate/src/fields.inc"
#undef MIGRATE_FIELD
};

using NodeId = int32_t;
constexpr NodeId kNoNode = -1;

struct Node {
  uint32_t start = 0, end = 0;
  NodeId parent = kNoNode, first_child = kNoNode, next = kNoNode, last = kNoNode;  // last: last descendant or itself
  Kind kind = Kind::kOther;
  Field field = Field::kNone;
  bool named = false;
};

class Ast {
 public:
  // Parses; check error() before anything else. Costs about 0.2 s per million bytes.
  explicit Ast(const Source& source);

  // Why this is not Python 3 ("syntax error", "Python 2 print statement"), or empty.
  const std::string& error() const { return error_; }
  int error_line() const { return error_line_; }

  NodeId root() const { return nodes_.empty() ? kNoNode : 0; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  Kind kind(NodeId id) const { return id == kNoNode ? Kind::kOther : nodes_[id].kind; }
  NodeId parent(NodeId id) const { return id == kNoNode ? kNoNode : nodes_[id].parent; }
  std::string_view text(NodeId id) const {
    return id == kNoNode ? std::string_view() : source_.text(nodes_[id].start, nodes_[id].end);
  }
  const Source& source() const { return source_; }
  int line(NodeId id) const { return source_.line_of(nodes_[id].start); }
  int end_line(NodeId id) const { return source_.line_of(nodes_[id].end ? nodes_[id].end - 1 : 0); }

  NodeId child(NodeId id, Field field) const;      // first child with that field
  NodeId named_child(NodeId id, int index) const;  // comments left out
  std::vector<NodeId> named_children(NodeId id) const;
  NodeId ancestor(NodeId id, Kind kind) const;  // nearest proper ancestor of that kind
  NodeId statement(NodeId id) const;            // the simple or compound statement that holds it
  bool is_inside(NodeId id, NodeId outer) const { return outer != kNoNode && id >= outer && id <= nodes_[outer].last; }

 private:
  bool find_python2();
  bool find_bad_indentation();

  const Source& source_;
  std::vector<Node> nodes_;
  std::string error_;
  int error_line_ = 0;
};

}  // namespace migrate
