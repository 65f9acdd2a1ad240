// The syntax tree of one Python file as a flat array in source order, made from tree-sitter's. Navigation is by index;
// every pass works on it and none sees tree-sitter. Nodes keep byte ranges of the source, never copies of it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "migrate/src/source.h"

namespace migrate {

// Node types the passes ask for; everything else is kOther. (enumerator, tree-sitter's name)
#define MIGRATE_KINDS(X)                                                                                               \
  X(Module, "module")                                                                                                  \
  X(Comment, "comment")                                                                                                \
  X(Identifier, "identifier")                                                                                          \
  X(DottedName, "dotted_name")                                                                                         \
  X(Attribute, "attribute") X(Call, "call") X(ArgumentList, "argument_list") X(KeywordArgument, "keyword_argument") X( \
      ListSplat, "list_splat") X(DictionarySplat, "dictionary_splat") X(Subscript, "subscript") X(Slice, "slice")      \
      X(String, "string") X(StringStart, "string_start") X(StringContent, "string_content") X(                         \
          StringEnd, "string_end") X(Interpolation, "interpolation") X(FormatSpecifier, "format_specifier")            \
          X(ConcatenatedString, "concatenated_string") X(Integer, "integer") X(Float, "float") X(True, "true") X(      \
              False, "false") X(None, "none") X(BinaryOperator, "binary_operator")                                     \
              X(BooleanOperator, "boolean_operator") X(NotOperator, "not_operator") X(                                 \
                  UnaryOperator, "unary_operator") X(Comparison,                                                       \
                                                     "comparison_operator") X(Conditional, "conditional_expression")   \
                  X(Parenthesized, "parenthesized_expression") X(Tuple, "tuple") X(List, "list") X(                    \
                      Set,                                                                                             \
                      "set") X(Dictionary,                                                                             \
                               "dictionary") X(Pair,                                                                   \
                                               "pair") X(ExpressionList,                                               \
                                                         "expression_list") X(Lambda, "lambda")                        \
                      X(LambdaParameters, "lambda_parameters") X(ListComprehension, "list_comprehension") X(           \
                          SetComprehension,                                                                            \
                          "set_comprehension") X(DictionaryComprehension, "dictionary_comprehension")                  \
                          X(GeneratorExpression, "generator_expression") X(ForInClause, "for_in_clause") X(            \
                              NamedExpression, "named_expression") X(Await, "await")                                   \
                              X(Yield, "yield") X(Assignment, "assignment") X(                                         \
                                  AugmentedAssignment, "augmented_assignment") X(ExpressionStatement,                  \
                                                                                 "expression_statement")               \
                                  X(ReturnStatement, "return_statement") X(AssertStatement, "assert_statement") X(     \
                                      RaiseStatement,                                                                  \
                                      "raise_statement") X(DeleteStatement, "delete_statement")                        \
                                      X(PassStatement, "pass_statement") X(GlobalStatement, "global_statement") X(     \
                                          NonlocalStatement, "nonlocal_statement") X(ImportStatement,                  \
                                                                                     "import_statement")               \
                                          X(ImportFromStatement,                                                       \
                                            "import_from_statement") X(FutureImport,                                   \
                                                                       "future_import_statement") X(AliasedImport,     \
                                                                                                    "aliased_import")  \
                                              X(RelativeImport, "relative_import") X(ImportPrefix, "import_prefix") X( \
                                                  WildcardImport,                                                      \
                                                  "wildcard_import") X(PrintStatement, "print_statement")              \
                                                  X(ExecStatement, "exec_statement") X(                                \
                                                      FunctionDefinition,                                              \
                                                      "function_definition") X(Parameters,                             \
                                                                               "parameters") X(DefaultParameter,       \
                                                                                               "default_parameter")    \
                                                      X(TypedParameter, "typed_parameter") X(                          \
                                                          TypedDefaultParameter,                                       \
                                                          "typed_default_parameter") X(ListSplatPattern,               \
                                                                                       "list_splat_pattern")           \
                                                          X(DictionarySplatPattern, "dictionary_splat_pattern") X(     \
                                                              TuplePattern,                                            \
                                                              "tuple_pattern") X(ListPattern, "list_pattern")          \
                                                              X(PatternList, "pattern_list") X(                        \
                                                                  ClassDefinition, "class_definition")                 \
                                                                  X(DecoratedDefinition, "decorated_definition") X(    \
                                                                      Decorator, "decorator")                          \
                                                                      X(Block, "block") X(Type, "type") X(             \
                                                                          IfStatement,                                 \
                                                                          "if_statement") X(ElifClause, "elif_clause") \
                                                                          X(ElseClause, "else_clause") X(              \
                                                                              ForStatement,                            \
                                                                              "for_statement") X(WhileStatement,       \
                                                                                                 "while_statement")    \
                                                                              X(TryStatement, "try_statement")         \
                                                                                  X(ExceptClause, "except_clause") X(  \
                                                                                      WithStatement,                   \
                                                                                      "with_statement") X(WithItem,    \
                                                                                                          "with_item") \
                                                                                      X(AsPattern, "as_pattern") X(    \
                                                                                          AsPatternTarget,             \
                                                                                          "as_pattern_target")         \
                                                                                          X(MatchStatement,            \
                                                                                            "match_statement")         \
                                                                                              X(CaseClause,            \
                                                                                                "case_clause")         \
                                                                                                  X(CasePattern,       \
                                                                                                    "case_pattern")    \
                                                                                                      X(Error,         \
                                                                                                        "ERROR")

enum class Kind : uint8_t {
  kOther,
#define MIGRATE_KIND(name, text) k##name,
  MIGRATE_KINDS(MIGRATE_KIND)
#undef MIGRATE_KIND
};

#define MIGRATE_FIELDS(X)                                                                                      \
  X(Alias, "alias")                                                                                            \
  X(Alternative, "alternative")                                                                                \
  X(Arguments, "arguments")                                                                                    \
  X(Attribute, "attribute")                                                                                    \
  X(Body, "body") X(Condition, "condition") X(Definition, "definition") X(Function, "function") X(Key, "key")  \
      X(Left, "left") X(ModuleName, "module_name") X(Name, "name") X(Object, "object") X(Operator, "operator") \
          X(Operators, "operators") X(Parameters, "parameters") X(ReturnType, "return_type") X(Right, "right") \
              X(Subject, "subject") X(Subscript, "subscript") X(Superclasses, "superclasses") X(Type, "type")  \
                  X(Value, "value")

enum class Field : uint8_t {
  kNone,
#define MIGRATE_FIELD(name, text) k##name,
  MIGRATE_FIELDS(MIGRATE_FIELD)
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
