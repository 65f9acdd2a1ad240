// Where `import torch_npu` goes: before the first import of torch at module level, else into each function that imports
// torch itself; nowhere if it is there already. Used by every pass that writes "torch_npu.", applied by the rewriter.
#pragma once
#include <map>
#include <set>
#include <string>

#include "migrate/src/ast.h"

namespace migrate {

class Edits;
class Names;

class ImportPlan {
 public:
  explicit ImportPlan(const Names& names);

  // Will the name torch_npu mean the package at this place, once the plan is carried out?
  bool visible(NodeId node) const;
  // Is there an import of torch that this place sees, beside which another can stand?
  bool reachable(NodeId node) const;
  // More imports beside it: `import module`, and at the top of the file `from module import name`.
  void add(const std::string& module, NodeId user);
  void add_from(const std::string& module, const std::string& name);
  // Adds the insertions to a file that has edits (all: also to one that has none).
  void carry_out(Edits* edits, bool all) const;
  // The imports of add_from, which say nothing about devices: a file with only these needs no torch_npu.
  void carry_out_from(Edits* edits) const;

 private:
  const Names& names_;
  std::map<int, NodeId> points_;                  // scope → import statement
  std::map<int, std::set<std::string>> modules_;  // scope → more modules
  std::set<std::pair<std::string, std::string>> from_;
  bool present_ = false;  // the module imports it already
};

// Text that makes `statement` come right before `where`: its line's newline and indentation, or "; " inside a line.
std::string as_statement_before(const Ast& ast, NodeId where, std::string_view statement);

}  // namespace migrate
