// See pass.h.
#include "migrate/src/pass.h"

#include <algorithm>

namespace migrate {

bool is_callee(const Ast& ast, NodeId node) {
  return ast.kind(ast.parent(node)) == Kind::kCall && ast[node].field == Field::kFunction;
}

bool is_called(const Ast& ast, NodeId node) {
  for (NodeId at = node;; at = ast.parent(at)) {
    if (is_callee(ast, at)) return true;
    Kind above = ast.kind(ast.parent(at));
    if (above == Kind::kParenthesized || above == Kind::kBooleanOperator) continue;
    // A branch, not the condition: the second of the three.
    if (above == Kind::kConditional && ast.named_child(ast.parent(at), 1) != at) continue;
    return false;
  }
}

NodeId call_argument(const Ast& ast, NodeId call, std::string_view keyword, int position) {
  NodeId list = ast.child(call, Field::kArguments);
  if (ast.kind(list) != Kind::kArgumentList) return kNoNode;
  int at = 0;
  for (NodeId c : ast.named_children(list)) {
    Kind kind = ast.kind(c);
    if (kind == Kind::kKeywordArgument) {
      if (!keyword.empty() && ast.text(ast.child(c, Field::kName)) == keyword) return ast.child(c, Field::kValue);
    } else if (kind == Kind::kListSplat) {
      at = -1000;  // positions after it are not known
    } else if (kind != Kind::kDictionarySplat) {
      if (at == position) return c;
      ++at;
    }
  }
  return kNoNode;
}

bool has_splat(const Ast& ast, NodeId call) {
  for (NodeId c : ast.named_children(ast.child(call, Field::kArguments)))
    if (ast.kind(c) == Kind::kListSplat || ast.kind(c) == Kind::kDictionarySplat) return true;
  return false;
}

bool has_comment(const Ast& ast, NodeId node) {
  for (NodeId id = node; id <= ast[node].last; ++id)
    if (ast.kind(id) == Kind::kComment) return true;
  return false;
}

bool looks_like_options(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "args",   "arg",     "opt", "opts",     "cfg",    "config", "conf",      "flags",   "FLAGS",       "options",
      "params", "hparams", "hps", "settings", "kwargs", "parser", "namespace", "configs", "config_dict", "environ"};
  size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) name = name.substr(dot + 1);
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

void remove_argument(Pass& pass, NodeId argument, const std::string& message) {
  const Ast& ast = pass.ast;
  NodeId list = ast.parent(argument);
  NodeId before = kNoNode, after = kNoNode, next = kNoNode;
  bool passed = false;
  for (NodeId c = ast[list].first_child; c != kNoNode; c = ast[c].next) {
    if (c == argument) {
      passed = true;
    } else if (!passed && ast.text(c) == ",") {
      before = c;
    } else if (passed && after == kNoNode && ast.text(c) == ",") {
      after = c;
    } else if (passed && after != kNoNode && next == kNoNode) {
      next = c;
    }
  }
  uint32_t start = ast[argument].start, end = ast[argument].end;
  if (before != kNoNode) {
    start = ast[before].start;  // ", x" goes; what follows keeps its own comma
  } else if (after != kNoNode) {
    end = next != kNoNode && ast.text(next) != ")" ? ast[next].start : ast[after].end;
  }
  pass.edits.remove(start, end, message);
}

void add_argument(Pass& pass, NodeId call, const std::string& text, const std::string& message) {
  const Ast& ast = pass.ast;
  NodeId list = ast.child(call, Field::kArguments);
  std::vector<NodeId> arguments = ast.named_children(list);
  if (arguments.empty()) {
    pass.edits.insert(ast[list].end - 1, text, message);
  } else {
    pass.edits.insert(ast[arguments.back()].end, ", " + text, message);
  }
}

}  // namespace migrate
