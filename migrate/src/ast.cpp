// See ast.h. One walk of tree-sitter's cursor, no recursion: nesting depth is bounded by memory, not by the stack.
#include "migrate/src/ast.h"

#include <tree_sitter/api.h>

#include <array>
#include <cstring>
#include <memory>
#include <unordered_map>

extern "C" const TSLanguage* tree_sitter_python(void);

namespace migrate {
namespace {

struct Tables {
  std::vector<Kind> kinds;    // by tree-sitter's symbol
  std::vector<Field> fields;  // by tree-sitter's field id

  Tables() {
    const TSLanguage* language = tree_sitter_python();
    kinds.resize(ts_language_symbol_count(language) + 1, Kind::kOther);
    fields.resize(ts_language_field_count(language) + 1, Field::kNone);
    std::unordered_map<std::string_view, Kind> kind_names = {
#define MIGRATE_KIND(name, text) {text, Kind::k##name},
#include "migrate/src/kinds.inc"
#undef MIGRATE_KIND
    };
    for (uint32_t i = 0; i < ts_language_symbol_count(language); ++i) {
      auto symbol = static_cast<TSSymbol>(i);
      if (ts_language_symbol_type(language, symbol) != TSSymbolTypeRegular) continue;
      auto found = kind_names.find(ts_language_symbol_name(language, symbol));
      if (found != kind_names.end()) kinds[i] = found->second;
    }
    std::unordered_map<std::string_view, Field> field_names = {
#define MIGRATE_FIELD(name, text) {text, Field::k##name},
#include "migrate/src/fields.inc"
#undef MIGRATE_FIELD
    };
    for (uint32_t i = 1; i <= ts_language_field_count(language); ++i) {
      auto found = field_names.find(ts_language_field_name_for_id(language, static_cast<TSFieldId>(i)));
      if (found != field_names.end()) fields[i] = found->second;
    }
  }
};

const Tables& tables() {
  static const Tables* instance = new Tables;  // leaked on purpose: threads may outlive static destruction
  return *instance;
}

// Decoders that only group bytes. A lone CR is read as a newline, which Python does and the grammar does not.
uint32_t decode_single(const uint8_t* text, uint32_t size, int32_t* code) {
  *code = text[0] == '\r' && (size < 2 || text[1] != '\n') ? '\n' : text[0];
  return 1;
}

uint32_t decode_double(const uint8_t* text, uint32_t size, int32_t* code) {
  if (text[0] < 0x81 || text[0] == 0xFF || size < 2 || text[1] < 0x30) return decode_single(text, size, code);
  *code = 0x4E00 + text[1];  // some letter
  return 2;
}

uint32_t decode_utf8_cr(const uint8_t* text, uint32_t size, int32_t* code) {
  if (text[0] < 0x80) return decode_single(text, size, code);
  uint32_t n = text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : 2;
  if (n > size) n = size;
  *code = 0x4E00;  // any letter: no token depends on which
  return n;
}

struct Chunk {
  const char* data;
  uint32_t size;
};

const char* read_chunk(void* payload, uint32_t offset, TSPoint, uint32_t* size) {
  auto* chunk = static_cast<Chunk*>(payload);
  *size = offset < chunk->size ? chunk->size - offset : 0;
  return chunk->data + (*size ? offset : 0);
}

template <class T, void (*Delete)(T*)>
struct Deleter {
  void operator()(T* pointer) const { Delete(pointer); }
};
using ParserPtr = std::unique_ptr<TSParser, Deleter<TSParser, ts_parser_delete>>;
using TreePtr = std::unique_ptr<TSTree, Deleter<TSTree, ts_tree_delete>>;

// Python 3 the grammar of this release does not have, replaced letter by letter with what it has: a star at the top level
// of `return` and `yield` by a minus, t-strings by f-strings. Positions stay; only the shape of those nodes differs.
std::string with_newer_syntax(const Source& source) {
  std::string text = source.bytes();
  for (int line = 1; line <= source.line_count(); ++line) {
    std::string_view written = source.line_text(line);
    size_t base = written.data() - source.bytes().data();
    size_t at = written.find_first_not_of(" \t");
    if (at == std::string_view::npos) continue;
    bool returns = false;
    for (std::string_view word : {"return ", "yield "}) {  // wherever on the line: def f(): return *a, b
      size_t found = written.find(word);
      if (found == std::string_view::npos ||
          (found && (isalnum(static_cast<unsigned char>(written[found - 1])) || written[found - 1] == '_')))
        continue;
      returns = true;
      at = found;
    }
    int depth = 0;
    for (char previous = ' '; at < written.size(); previous = written[at] == ' ' ? previous : written[at], ++at) {
      char c = written[at];
      depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
      if (returns && depth == 0 && c == '*' && (previous == 'n' || previous == 'd' || previous == ','))
        text[base + at] = '-';
      if ((c | 32) == 't' && at + 1 < written.size()) {
        size_t quote = at + 1 + ((written[at + 1] | 32) == 'r' ? 1 : 0);
        bool opens = quote < written.size() && (written[quote] == '"' || written[quote] == '\'');
        bool starts = at == 0 || !(isalnum(static_cast<unsigned char>(written[at - 1])) || written[at - 1] == '_');
        if (opens && starts) text[base + at] = 'f';
      }
    }
  }
  return text;
}

TreePtr parse(const Source& source, const std::string& bytes) {
  // One parser a thread: making one costs more than parsing a small file.
  thread_local ParserPtr parser;
  if (!parser) {
    parser.reset(ts_parser_new());
    if (!ts_parser_set_language(parser.get(), tree_sitter_python())) return nullptr;
  }
  uint32_t skip = source.text_start();
  Chunk chunk{bytes.data() + skip, static_cast<uint32_t>(bytes.size()) - skip};
  TSInput input{&chunk, read_chunk, TSInputEncodingUTF8, nullptr};
  if (source.encoding() == Encoding::kDoubleByte)
    input.encoding = TSInputEncodingCustom, input.decode = decode_double;
  else if (source.encoding() == Encoding::kSingleByte)
    input.encoding = TSInputEncodingCustom, input.decode = decode_single;
  else if (source.lone_cr())
    input.encoding = TSInputEncodingCustom, input.decode = decode_utf8_cr;
  return TreePtr(ts_parser_parse(parser.get(), nullptr, input));
}

}  // namespace

Ast::Ast(const Source& source) : source_(source) {
  TreePtr tree = parse(source, source.bytes());
  if (tree && ts_node_has_error(ts_tree_root_node(tree.get()))) {
    TreePtr again = parse(source, with_newer_syntax(source));
    if (again && !ts_node_has_error(ts_tree_root_node(again.get()))) tree = std::move(again);
  }
  if (!tree) {
    error_ = "the parser gave up", error_line_ = 1;
    return;
  }
  const Tables& table = tables();
  uint32_t skip = source.text_start();
  nodes_.reserve(source.size() / 3);
  TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(tree.get()));
  NodeId parent = kNoNode;
  uint32_t error_at = UINT32_MAX;
  for (bool down = true;;) {
    if (down) {
      TSNode node = ts_tree_cursor_current_node(&cursor);
      Node made;
      made.start = ts_node_start_byte(node) + skip;
      made.end = ts_node_end_byte(node) + skip;
      made.parent = parent;
      TSSymbol symbol = ts_node_symbol(node);
      made.kind = symbol < table.kinds.size() ? table.kinds[symbol]
                  : symbol == UINT16_MAX      ? Kind::kError
                                              : Kind::kOther;
      made.field = table.fields[ts_tree_cursor_current_field_id(&cursor)];
      made.named = ts_node_is_named(node);
      if ((made.kind == Kind::kError || ts_node_is_missing(node)) && made.start < error_at) error_at = made.start;
      NodeId id = static_cast<NodeId>(nodes_.size());
      made.last = id;
      nodes_.push_back(made);
      if (ts_tree_cursor_goto_first_child(&cursor)) {
        nodes_[id].first_child = id + 1;
        parent = id;
        continue;
      }
    }
    // Here the newest node of this level is complete: its descendants end where the array does.
    NodeId id = down ? static_cast<NodeId>(nodes_.size()) - 1 : parent;
    if (!down) {
      parent = nodes_[id].parent;
      nodes_[id].last = static_cast<NodeId>(nodes_.size()) - 1;
    }
    if (ts_tree_cursor_goto_next_sibling(&cursor)) {
      nodes_[id].next = static_cast<NodeId>(nodes_.size());
      down = true;
    } else if (ts_tree_cursor_goto_parent(&cursor)) {
      down = false;
    } else {
      break;
    }
  }
  ts_tree_cursor_delete(&cursor);
  if (find_python2() || find_bad_indentation()) return;
  if (error_at != UINT32_MAX) {
    error_ = "syntax error";
    error_line_ = source.line_of(error_at);
  }
}

// The grammar also reads Python 2; what only Python 2 has makes the file one that is not migrated.
bool Ast::find_python2() {
  for (NodeId id = 0; id < size(); ++id) {
    const Node& node = nodes_[id];
    const char* what = nullptr;
    std::string_view written = node.last == id ? text(id) : std::string_view();
    if (node.kind == Kind::kPrintStatement) {
      what = "a print statement";
    } else if (node.kind == Kind::kExecStatement) {
      what = "an exec statement";
    } else if (node.kind == Kind::kRaiseStatement && kind(named_child(id, 0)) == Kind::kExpressionList) {
      what = "a raise with a comma";
    } else if (node.kind == Kind::kInteger && (written.ends_with('l') || written.ends_with('L'))) {
      what = "a long integer";
    } else if (!node.named && written == "<>") {
      what = "a <> operator";
    } else if (node.kind == Kind::kExceptClause) {
      // "except Error, e": since Python 3.14 two classes may stand there, and classes are capitalised.
      for (NodeId c = node.first_child; c != kNoNode; c = nodes_[c].next) {
        NodeId after = nodes_[c].next;
        if (!nodes_[c].named && text(c) == "," && kind(after) == Kind::kIdentifier && islower(text(after)[0]))
          what = "an except with a comma";
      }
    }
    if (what) {
      error_ = std::string("Python 2: ") + what;
      error_line_ = line(id);
      return true;
    }
  }
  return false;
}

// The grammar takes any indentation between statements; Python does not.
bool Ast::find_bad_indentation() {
  auto column = [&](NodeId statement) {
    uint32_t start = nodes_[statement].start;
    int line = source_.line_of(start);
    uint32_t line_start = line == 1 ? source_.text_start() : source_.line_start(line);
    int at = 0;
    for (char c : source_.text(line_start, start)) {
      if (c == ' ')
        ++at;
      else if (c == '\t')
        at = at / 8 * 8 + 8;
      else if (c == '\f')
        at = 0;
      else
        return -1;  // not the first on its line
    }
    return at;
  };
  for (NodeId id = 0; id < size(); ++id) {
    if (nodes_[id].kind != Kind::kBlock && nodes_[id].kind != Kind::kModule) continue;
    int expected = nodes_[id].kind == Kind::kModule ? 0 : -1;
    for (NodeId c = nodes_[id].first_child; c != kNoNode; c = nodes_[c].next) {
      if (!nodes_[c].named || nodes_[c].kind == Kind::kComment) continue;
      int at = column(c);
      if (at < 0) continue;
      if (expected < 0) expected = at;
      if (at == expected) continue;
      error_ = "unexpected indentation";
      error_line_ = line(c);
      return true;
    }
  }
  return false;
}

NodeId Ast::child(NodeId id, Field field) const {
  if (id == kNoNode) return kNoNode;
  for (NodeId c = nodes_[id].first_child; c != kNoNode; c = nodes_[c].next)
    if (nodes_[c].field == field && nodes_[c].named) return c;
  return kNoNode;
}

NodeId Ast::named_child(NodeId id, int index) const {
  if (id == kNoNode) return kNoNode;
  for (NodeId c = nodes_[id].first_child; c != kNoNode; c = nodes_[c].next)
    if (nodes_[c].named && nodes_[c].kind != Kind::kComment && index-- == 0) return c;
  return kNoNode;
}

std::vector<NodeId> Ast::named_children(NodeId id) const {
  std::vector<NodeId> found;
  if (id == kNoNode) return found;
  for (NodeId c = nodes_[id].first_child; c != kNoNode; c = nodes_[c].next)
    if (nodes_[c].named && nodes_[c].kind != Kind::kComment) found.push_back(c);
  return found;
}

NodeId Ast::ancestor(NodeId id, Kind kind) const {
  for (NodeId at = parent(id); at != kNoNode; at = nodes_[at].parent)
    if (nodes_[at].kind == kind) return at;
  return kNoNode;
}

NodeId Ast::statement(NodeId id) const {
  for (NodeId at = id; at != kNoNode; at = nodes_[at].parent) {
    Kind above = kind(nodes_[at].parent);
    if (above == Kind::kBlock || above == Kind::kModule) return at;
  }
  return kNoNode;
}

}  // namespace migrate
