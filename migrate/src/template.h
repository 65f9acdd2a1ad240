// The value of a string expression as far as it can be known without running it: literal text with holes. It covers plain
// and f-strings, implicit concatenation, "a" + b, "a%d" % b and "a{}".format(b), and knows which bytes each letter is from.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "migrate/src/ast.h"

namespace migrate {

constexpr char kHole = '\x01';

struct Template {
  NodeId whole = kNoNode;       // the outermost expression the value is that of
  std::string text;             // letters, kHole for what is computed
  std::vector<uint32_t> where;  // for each letter, its byte in the source
  bool bytes = false;           // b'...'
  bool plain = false;           // one string literal without holes
  bool leads = true;            // false: something comes before it ("a" + 'cuda')
  NodeId literal = kNoNode;     // the string or concatenation itself
};

// `string`: a string node that is no piece of a larger concatenation or f-string (template_root says).
Template read_template(const Ast& ast, NodeId string);
// The node read_template wants for a string node: its concatenation or the outer f-string's.
NodeId template_root(const Ast& ast, NodeId string);
// The text between the quotes, as written.
std::string_view literal_content(const Ast& ast, NodeId string);
bool is_bytes(const Ast& ast, NodeId string);

}  // namespace migrate
