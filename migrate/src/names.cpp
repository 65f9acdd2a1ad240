// See names.h. Python's scoping, flow-insensitive: a name with two different meanings in one scope means nothing.
#include "migrate/src/names.h"

#include <algorithm>

#include "migrate/src/project.h"

namespace migrate {
namespace {

constexpr int kMaxDepth = 64;     // of expressions and of chains of assignments and files
constexpr size_t kMaxPath = 240;  // a longer path is nothing we know
// Unbound names that are what they look like: snippets, star imports from outside, __builtins__.
constexpr std::string_view kKnown[] = {"torch", "torch_npu",  "cupy", "numba", "pycuda",
                                       "jax",   "tensorflow", "tf",   "paddle"};
constexpr std::string_view kBuiltins[] = {"open",       "print", "getattr", "setattr", "hasattr",
                                          "delattr",    "eval",  "exec",    "compile", "isinstance",
                                          "__import__", "str",   "dict",    "input",   "int"};

// What `from torch.cuda import *` is used for.
constexpr std::string_view kCudaNames[] = {"amp",        "is_available", "device_count",  "current_device",
                                           "set_device", "synchronize",  "Stream",        "Event",
                                           "stream",     "empty_cache",  "current_stream"};

template <class Range>
bool contains(const Range& range, std::string_view value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

std::string without_spaces(std::string_view text) {
  std::string out;
  for (char c : text)
    if (!isspace(static_cast<unsigned char>(c)) && c != '\\') out += c;
  return out;
}

bool makes_comprehension(Kind kind) {
  return kind == Kind::kListComprehension || kind == Kind::kSetComprehension ||
         kind == Kind::kDictionaryComprehension || kind == Kind::kGeneratorExpression;
}

}  // namespace

bool starts_with_path(std::string_view path, std::string_view prefix) {
  return path.starts_with(prefix) && (path.size() == prefix.size() || path[prefix.size()] == '.');
}

std::string_view root_package(std::string_view path) { return path.substr(0, path.find_first_of(".(")); }

Names::Names(const Ast& ast, Project* project, std::string file)
    : ast_(ast), project_(project), file_(std::move(file)) {
  build();
}

int Names::open(Scope::Kind kind, NodeId node, int parent) {
  Scope scope;
  scope.kind = kind;
  scope.parent = parent;
  scope.node = node;
  scopes_.push_back(std::move(scope));
  return static_cast<int>(scopes_.size()) - 1;
}

void Names::bind(int scope, std::string_view name, Binding binding) {
  Scope& where = scopes_[scope];
  if (where.kind == Scope::kFunction && contains(where.globals, name)) return bind(0, name, std::move(binding));
  if (where.kind == Scope::kFunction && contains(where.nonlocals, name) && where.parent >= 0)
    return bind(where.parent, name, std::move(binding));
  where.names[name].push_back(std::move(binding));
}

void Names::bind_target(int scope, NodeId target, NodeId statement, NodeId value) {
  // A tree of patterns; iterative, for input that nests deeply on purpose.
  std::vector<std::pair<NodeId, NodeId>> open = {{target, value}};
  while (!open.empty()) {
    auto [at, assigned] = open.back();
    open.pop_back();
    switch (ast_.kind(at)) {
      case Kind::kIdentifier: {
        Binding binding;
        binding.kind = assigned == kNoNode ? Binding::kOther : Binding::kAssigned;
        binding.node = statement;
        binding.value = assigned;
        bind(scope, ast_.text(at), std::move(binding));
        break;
      }
      case Kind::kPatternList:
      case Kind::kTuplePattern:
      case Kind::kListPattern:
      case Kind::kTuple:
      case Kind::kList:
      case Kind::kExpressionList:
      case Kind::kListSplatPattern:
      case Kind::kAsPatternTarget:
      case Kind::kParenthesized: {
        std::vector<NodeId> targets = ast_.named_children(at), values;
        Kind kind = ast_.kind(assigned);
        if (kind == Kind::kExpressionList || kind == Kind::kTuple || kind == Kind::kList)
          values = ast_.named_children(assigned);
        for (size_t i = 0; i < targets.size(); ++i)
          open.push_back({targets[i], values.size() == targets.size() ? values[i] : kNoNode});
        break;
      }
      default:
        break;  // attribute, subscript: not a name
    }
  }
}

void Names::bind_parameters(int scope, NodeId parameters) {
  for (NodeId p : ast_.named_children(parameters)) {
    NodeId name = p;
    if (ast_.kind(p) == Kind::kDefaultParameter || ast_.kind(p) == Kind::kTypedDefaultParameter)
      name = ast_.child(p, Field::kName);
    else if (ast_.kind(p) == Kind::kTypedParameter)
      name = ast_.named_child(p, 0);
    if (ast_.kind(name) == Kind::kListSplatPattern || ast_.kind(name) == Kind::kDictionarySplatPattern)
      name = ast_.named_child(name, 0);
    bind_target(scope, name, p, kNoNode);
  }
}

void Names::bind_import(int scope, NodeId statement) {
  bool from = ast_.kind(statement) == Kind::kImportFromStatement;
  NodeId module = from ? ast_.child(statement, Field::kModuleName) : kNoNode;
  std::string prefix = from ? without_spaces(ast_.text(module)) : "";
  bool relative = prefix.starts_with('.');
  for (NodeId c : ast_.named_children(statement)) {
    if (c == module) continue;
    if (ast_.kind(c) == Kind::kWildcardImport) {
      scopes_[scope].stars.push_back(prefix);
      continue;
    }
    NodeId name = ast_.kind(c) == Kind::kAliasedImport ? ast_.child(c, Field::kName) : c;
    NodeId alias = ast_.kind(c) == Kind::kAliasedImport ? ast_.child(c, Field::kAlias) : kNoNode;
    std::string written = without_spaces(ast_.text(name));
    Binding binding;
    binding.node = statement;
    binding.kind = relative ? Binding::kRelative : Binding::kImport;
    if (from) {
      binding.path = prefix + (prefix.ends_with('.') ? "" : ".") + written;
      bind(scope, alias != kNoNode ? ast_.text(alias) : ast_.text(name), std::move(binding));
    } else if (alias != kNoNode) {
      binding.path = written;
      bind(scope, ast_.text(alias), std::move(binding));
    } else {  // import a.b binds a
      std::string_view first = ast_.text(ast_.named_child(name, 0));
      binding.path = std::string(first);
      bind(scope, first, std::move(binding));
    }
  }
}

void Names::build() {
  scope_of_.assign(ast_.size(), 0);
  open(Scope::kModule, ast_.root(), -1);
  if (ast_.size() == 0) return;
  // Declarations first: "global x" counts for the whole function, wherever it stands.
  std::unordered_map<NodeId, int> opened;
  for (NodeId id = 0; id < ast_.size(); ++id) {
    NodeId above = ast_[id].parent;
    int scope = above == kNoNode ? 0 : scope_of_[above];
    auto it = opened.find(above);
    if (it != opened.end()) {
      // Names of a definition and its decorators, defaults, annotations and bases belong outside of it.
      Field field = ast_[id].field;
      bool inner = ast_.kind(above) == Kind::kClassDefinition ? field == Field::kBody
                   : ast_.kind(above) == Kind::kFunctionDefinition
                       ? field == Field::kBody || field == Field::kParameters
                       : true;
      if (inner) scope = it->second;
    }
    Kind kind = ast_.kind(id);
    // Default values and annotations of parameters are evaluated outside.
    if ((ast_.kind(above) == Kind::kDefaultParameter || ast_.kind(above) == Kind::kTypedDefaultParameter ||
         ast_.kind(above) == Kind::kTypedParameter) &&
        (ast_[id].field == Field::kValue || ast_[id].field == Field::kType) && scopes_[scope].parent >= 0)
      scope = scopes_[scope].parent;
    scope_of_[id] = scope;
    if (kind == Kind::kFunctionDefinition) opened[id] = open(Scope::kFunction, id, scope);
    if (kind == Kind::kClassDefinition) opened[id] = open(Scope::kClass, id, scope);
    if (kind == Kind::kLambda) opened[id] = open(Scope::kLambda, id, scope);
    if (makes_comprehension(kind)) opened[id] = open(Scope::kComprehension, id, scope);
    if (kind == Kind::kGlobalStatement || kind == Kind::kNonlocalStatement)
      for (NodeId c : ast_.named_children(id))
        (kind == Kind::kGlobalStatement ? scopes_[scope].globals : scopes_[scope].nonlocals).push_back(ast_.text(c));
  }
  for (NodeId id = 0; id < ast_.size(); ++id) {
    int scope = scope_of_[id];
    switch (ast_.kind(id)) {
      case Kind::kImportStatement:
      case Kind::kImportFromStatement:
        bind_import(scope, id);
        break;
      case Kind::kAssignment:
        bind_target(scope, ast_.child(id, Field::kLeft), id, ast_.child(id, Field::kRight));
        break;
      case Kind::kNamedExpression: {
        int outer = scope;
        while (scopes_[outer].kind == Scope::kComprehension) outer = scopes_[outer].parent;
        bind_target(outer, ast_.child(id, Field::kName), id, ast_.child(id, Field::kValue));
        break;
      }
      case Kind::kAugmentedAssignment:
      case Kind::kForStatement:
      case Kind::kForInClause:
        bind_target(scope, ast_.child(id, Field::kLeft), id, kNoNode);
        break;
      case Kind::kAsPatternTarget:
        bind_target(scope, id, id, kNoNode);
        break;
      case Kind::kFunctionDefinition:
      case Kind::kClassDefinition: {
        NodeId name = ast_.child(id, Field::kName);
        Binding binding;
        binding.kind = Binding::kDefined;
        binding.node = id;
        binding.path = "local:" + std::string(ast_.text(name));
        bind(scope, ast_.text(name), std::move(binding));
        if (ast_.kind(id) == Kind::kFunctionDefinition) {
          NodeId parameters = ast_.child(id, Field::kParameters);
          if (parameters != kNoNode) bind_parameters(scope_of_[parameters], parameters);
        }
        break;
      }
      case Kind::kLambdaParameters:
        bind_parameters(scope, id);
        break;
      case Kind::kCasePattern:
        // A bare lower-case name in a pattern captures; a string or dotted name does not.
        if (ast_.kind(ast_.named_child(id, 0)) == Kind::kDottedName &&
            ast_.text(id).find('.') == std::string_view::npos)
          bind(scope, ast_.text(id), Binding{Binding::kOther, id, kNoNode, {}});
        break;
      default:
        break;
    }
  }
}

const std::vector<Binding>* Names::lookup(std::string_view name, int from_scope, int* scope) const {
  bool first = true;
  for (int at = from_scope; at >= 0; at = scopes_[at].parent) {
    const Scope& where = scopes_[at];
    // A class body is seen from itself only.
    bool visible = where.kind != Scope::kClass || first;
    if (where.kind != Scope::kComprehension) first = false;
    if (!visible) continue;
    if (where.kind == Scope::kFunction && contains(where.globals, name)) {
      at = 0;
    }
    auto found = scopes_[at].names.find(name);
    if (found != scopes_[at].names.end()) {
      if (scope) *scope = at;
      return &found->second;
    }
    if (at == 0) break;
  }
  return nullptr;
}

const std::vector<Binding>* Names::lookup(NodeId identifier, int* scope) const {
  return lookup(ast_.text(identifier), scope_of_[identifier], scope);
}

std::string Names::path_of_binding(const Binding& binding, int depth) const {
  switch (binding.kind) {
    case Binding::kImport:
    case Binding::kRelative:
      if (project_) return project_->resolve_import(binding.path, file_, depth);
      return binding.kind == Binding::kImport ? binding.path : "";
    case Binding::kDefined:
      return binding.path;
    case Binding::kAssigned:
      return compute(binding.value, depth + 1);
    default:
      return "";
  }
}

std::string Names::path_of_unbound(std::string_view name, int depth) const {
  const std::vector<std::string>& stars = scopes_[0].stars;
  if (project_)
    for (const std::string& star : stars) {
      std::string dotted = star + (star.ends_with('.') ? "" : ".") + std::string(name);
      std::string found = project_->resolve_import(dotted, file_, depth, true);
      if (!found.empty()) return found;
    }
  for (const std::string& star : stars) {
    if (star == "torch" && name == "cuda") return "torch.cuda";
    if (star == "torch.cuda" && contains(kCudaNames, name)) return "torch.cuda." + std::string(name);
  }
  if (contains(kKnown, name)) return name == "tf" ? "tensorflow" : std::string(name);
  if (name == "cp") return "cupy";
  return contains(kBuiltins, name) ? "builtins." + std::string(name) : "";
}

// The one path all bindings agree on. "torch = None" says nothing, and neither does an assignment in terms of the name
// itself (model = model.half()): the others decide.
std::string Names::path_of_bindings(const std::vector<Binding>& bindings, int depth) const {
  std::string agreed;
  if (bindings.size() > 64) return "";
  for (const Binding& binding : bindings) {
    if (binding.kind == Binding::kOther && ast_.kind(binding.node) != Kind::kAugmentedAssignment) return "";
    if (binding.kind == Binding::kAssigned) {
      Kind kind = ast_.kind(binding.value);
      if (kind == Kind::kNone || kind == Kind::kFalse || kind == Kind::kTrue) continue;
    }
    int before = progress_.lowest;
    std::string found = path_of_binding(binding, depth);
    if (found.empty() && progress_.lowest < before) continue;
    if (found.empty()) return "";
    if (agreed.empty()) agreed = found;
    if (agreed != found) return "";
  }
  return agreed;
}

std::string Names::path_of_name(std::string_view name, int from_scope, int depth) const {
  if (depth > kMaxDepth || --progress_.budget < 0) return "";
  const std::vector<Binding>* bindings = lookup(name, from_scope);
  if (!bindings) return path_of_unbound(name, depth);
  if (auto memo = name_memo_.find(bindings); memo != name_memo_.end()) return memo->second;
  int level = static_cast<int>(progress_.busy.size());
  auto [entry, fresh] = progress_.busy.try_emplace(bindings, level);
  if (!fresh) {
    progress_.lowest = std::min(progress_.lowest, entry->second);
    return "";
  }
  int outer = progress_.lowest;
  progress_.lowest = kUntouched;
  std::string result = path_of_bindings(*bindings, depth);
  progress_.busy.erase(bindings);
  if (progress_.lowest >= level) {
    if (progress_.budget >= 0) name_memo_[bindings] = result;
    progress_.lowest = outer;
  } else {
    progress_.lowest = std::min(progress_.lowest, outer);
  }
  return result;
}

std::string Names::compute(NodeId expression, int depth) const {
  if (depth > kMaxDepth || expression == kNoNode) return "";
  auto memo = memo_.find(expression);
  if (memo != memo_.end()) return memo->second;
  int outer = progress_.lowest;
  progress_.lowest = kUntouched;
  std::string result = compute_uncached(expression, depth);
  if (result.size() > kMaxPath) result.clear();
  if (progress_.lowest == kUntouched && progress_.budget >= 0) memo_[expression] = result;
  progress_.lowest = std::min(progress_.lowest, outer);
  return result;
}

std::string Names::compute_uncached(NodeId expression, int depth) const {
  switch (ast_.kind(expression)) {
    case Kind::kIdentifier:
      return path_of_name(ast_.text(expression), scope_of_[expression], depth + 1);
    case Kind::kDottedName: {  // of patterns
      NodeId first = ast_.named_child(expression, 0);
      std::string root = first == kNoNode ? "" : path_of_name(ast_.text(first), scope_of_[expression], depth + 1);
      if (root.empty()) return "";
      std::string written = without_spaces(ast_.text(expression));
      size_t dot = written.find('.');
      return root + (dot == std::string::npos ? "" : written.substr(dot));
    }
    case Kind::kAttribute: {
      std::string object = compute(ast_.child(expression, Field::kObject), depth + 1);
      if (object.empty()) return "";
      std::string result = object + "." + std::string(ast_.text(ast_.child(expression, Field::kAttribute)));
      return project_ && result.starts_with("project:") ? project_->resolve_member(result, depth) : result;
    }
    case Kind::kCall: {
      std::string function = compute(ast_.child(expression, Field::kFunction), depth + 1);
      return function.empty() ? "" : function + "()";
    }
    case Kind::kParenthesized:
    case Kind::kAwait:
      return compute(ast_.named_child(expression, 0), depth + 1);
    default:
      return "";
  }
}

std::string Names::path(NodeId expression) const {
  progress_ = Progress{};
  progress_.budget = 4000;
  return compute(expression, 0);
}

std::string Names::exported(std::string_view name, int depth) const {
  progress_ = Progress{};
  progress_.budget = 4000;
  return path_of_name(name, 0, depth + 1);
}

}  // namespace migrate
