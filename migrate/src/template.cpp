// See template.h.
#include "migrate/src/template.h"

namespace migrate {
namespace {

std::string_view prefix_of(const Ast& ast, NodeId string) {
  std::string_view start = ast.text(ast[string].first_child);
  return start.substr(0, start.find_first_of("'\""));
}

bool has_letter(std::string_view prefix, char letter) {
  for (char c : prefix)
    if ((c | 32) == letter) return true;
  return false;
}

void add_text(const Ast& ast, NodeId node, Template* out) {
  for (uint32_t i = ast[node].start; i < ast[node].end; ++i) {
    out->text += ast.source().bytes()[i];
    out->where.push_back(i);
  }
}

void add_hole(const Ast& ast, NodeId node, Template* out) {
  out->text += kHole;
  out->where.push_back(ast[node].start);
}

void add_string(const Ast& ast, NodeId string, Template* out, int depth) {
  if (ast.kind(string) == Kind::kConcatenatedString) {
    for (NodeId c : ast.named_children(string)) add_string(ast, c, out, depth);
    return;
  }
  for (NodeId c = ast[string].first_child; c != kNoNode; c = ast[c].next) {
    if (ast.kind(c) == Kind::kStringContent) {
      add_text(ast, c, out);
    } else if (ast.kind(c) == Kind::kInterpolation) {
      std::vector<NodeId> inner = ast.named_children(c);
      bool constant = inner.size() == 1 && depth < 4 && ast.kind(inner[0]) == Kind::kString;
      if (constant)
        add_string(ast, inner[0], out, depth + 1);
      else
        add_hole(ast, c, out);
    }
  }
}

}  // namespace

std::string_view literal_content(const Ast& ast, NodeId string) {
  NodeId first = ast[string].first_child, last = first;
  if (first == kNoNode) return {};
  while (ast[last].next != kNoNode) last = ast[last].next;
  return ast.source().text(ast[first].end, ast[last].start >= ast[first].end ? ast[last].start : ast[first].end);
}

bool is_bytes(const Ast& ast, NodeId string) { return has_letter(prefix_of(ast, string), 'b'); }

NodeId template_root(const Ast& ast, NodeId string) {
  NodeId at = string;
  while (true) {
    NodeId above = ast.parent(at);
    if (ast.kind(above) == Kind::kConcatenatedString) {
      at = above;
    } else if (ast.kind(above) == Kind::kInterpolation && ast.named_children(above).size() == 1) {
      at = ast.parent(above);  // a constant inside an f-string is part of its value
    } else {
      return at;
    }
  }
}

Template read_template(const Ast& ast, NodeId string) {
  Template made;
  made.whole = made.literal = string;
  NodeId first = ast.kind(string) == Kind::kConcatenatedString ? ast.named_child(string, 0) : string;
  made.bytes = is_bytes(ast, first);
  add_string(ast, string, &made, 0);
  made.plain = ast.kind(string) == Kind::kString && made.text.find(kHole) == std::string::npos;
  // Outwards: what is done to the string while it is still at the front of the value.
  while (true) {
    NodeId above = ast.parent(made.whole), top = made.whole;
    if (ast.kind(above) == Kind::kBinaryOperator) {
      NodeId left = ast.child(above, Field::kLeft), right = ast.child(above, Field::kRight);
      std::string_view op;
      for (NodeId c = ast[above].first_child; c != kNoNode; c = ast[c].next)
        if (ast[c].field == Field::kOperator) op = ast.text(c);
      if (left != top) {
        made.leads = false;
        return made;
      }
      if (op == "+") {
        if (ast.kind(right) == Kind::kString || ast.kind(right) == Kind::kConcatenatedString)
          add_string(ast, right, &made, 0);
        else
          add_hole(ast, right, &made);
      } else if (op != "%") {
        return made;
      }
      made.whole = above;
    } else if (ast.kind(above) == Kind::kAttribute && ast[top].field == Field::kObject &&
               ast.text(ast.child(above, Field::kAttribute)) == "format" &&
               ast.kind(ast.parent(above)) == Kind::kCall && ast[above].field == Field::kFunction) {
      made.whole = ast.parent(above);
    } else if (ast.kind(above) == Kind::kParenthesized) {
      made.whole = above;
    } else {
      return made;
    }
  }
}

}  // namespace migrate
