// What names mean in one file: scopes, bindings, and the dotted path an expression stands for.
// Paths are absolute ("torch.cuda.amp.autocast"); a call adds "()", so `p = argparse.ArgumentParser()` gives p the path
// "argparse.ArgumentParser()". Names made here begin with "local:". An empty path means unknown; nothing is guessed.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "migrate/src/ast.h"

namespace migrate {

class Project;

struct Binding {
  enum Kind : uint8_t {
    kImport,    // path is absolute: import a.b as c, from a import b
    kRelative,  // path is "..pkg.mod" + ".name": resolved by the project
    kAssigned,  // value: the expression
    kDefined,   // function or class made here
    kOther,     // parameter, loop variable, deleted, augmented: unknown
  };
  Kind kind = kOther;
  NodeId node = kNoNode;  // the statement or definition
  NodeId value = kNoNode;
  std::string path;
};

struct Scope {
  enum Kind : uint8_t { kModule, kFunction, kClass, kLambda, kComprehension };
  Kind kind = kModule;
  int parent = -1;
  NodeId node = kNoNode;
  std::unordered_map<std::string_view, std::vector<Binding>> names;
  std::vector<std::string_view> globals, nonlocals;
  std::vector<std::string> stars;  // "from m import *": m, relative ones with their dots
};

class Names {
 public:
  // `file` is the path of the file inside the project, for relative and cross-file imports; project may be null.
  Names(const Ast& ast, Project* project, std::string file);

  std::string path(NodeId expression) const;  // memoised
  // The path of a module-level name: what `from this_file import name` gives.
  std::string exported(std::string_view name, int depth) const;

  const std::vector<Scope>& scopes() const { return scopes_; }
  int scope_of(NodeId node) const { return scope_of_[node]; }
  // The bindings a name at this place refers to and their scope; null if it is unbound in the file.
  const std::vector<Binding>* lookup(NodeId identifier, int* scope = nullptr) const;
  const std::vector<Binding>* lookup(std::string_view name, int from_scope, int* scope = nullptr) const;
  const Ast& ast() const { return ast_; }
  const std::string& file() const { return file_; }

 private:
  void build();
  int open(Scope::Kind kind, NodeId node, int parent);
  void bind(int scope, std::string_view name, Binding binding);
  void bind_target(int scope, NodeId target, NodeId statement, NodeId value);
  void bind_parameters(int scope, NodeId parameters);
  void bind_import(int scope, NodeId statement);
  std::string compute(NodeId expression, int depth) const;
  std::string compute_uncached(NodeId expression, int depth) const;
  std::string path_of_name(std::string_view name, int from_scope, int depth) const;
  std::string path_of_bindings(const std::vector<Binding>& bindings, int depth) const;
  std::string path_of_unbound(std::string_view name, int depth) const;
  std::string path_of_binding(const Binding& binding, int depth) const;

  const Ast& ast_;
  Project* project_;
  std::string file_;
  std::vector<Scope> scopes_;
  std::vector<int> scope_of_;

  // Resolution in progress: names being resolved with their depth, and the lowest of them that was met again. A result
  // that leaned on an unfinished name is not memoised. The budget bounds what hostile input can make of it.
  struct Progress {
    std::unordered_map<const void*, int> busy;
    int lowest = kUntouched;
    int budget = 0;
  };
  static constexpr int kUntouched = 1 << 30;
  mutable Progress progress_;
  mutable std::unordered_map<NodeId, std::string> memo_;
  mutable std::unordered_map<const void*, std::string> name_memo_;
};

// "a.b" is `whole` or begins it at a dot.
bool starts_with_path(std::string_view path, std::string_view prefix);
// The part before the first dot or call.
std::string_view root_package(std::string_view path);

}  // namespace migrate
