// See import_plan.h.
#include "migrate/src/import_plan.h"

#include "migrate/src/edits.h"
#include "migrate/src/names.h"

namespace migrate {
namespace {

bool is_torch_package(std::string_view root) {
  return root == "torch" || root == "torchvision" || root == "torchaudio" || root == "torchtext";
}

bool imports_torch(const Ast& ast, NodeId statement) {
  if (ast.kind(statement) == Kind::kImportFromStatement)
    return is_torch_package(root_package(ast.text(ast.child(statement, Field::kModuleName))));
  for (NodeId c : ast.named_children(statement)) {
    NodeId name = ast.kind(c) == Kind::kAliasedImport ? ast.child(c, Field::kName) : c;
    if (is_torch_package(root_package(ast.text(name)))) return true;
  }
  return false;
}

// `if TYPE_CHECKING:` bodies are never run.
bool only_for_types(const Ast& ast, NodeId statement) {
  for (NodeId at = statement; at != kNoNode; at = ast.parent(at))
    if (ast.kind(at) == Kind::kIfStatement &&
        ast.text(ast.child(at, Field::kCondition)).find("TYPE_CHECKING") != std::string_view::npos)
      return true;
  return false;
}

}  // namespace

ImportPlan::ImportPlan(const Names& names) : names_(names) {
  const Ast& ast = names.ast();
  for (NodeId id = 0; id < ast.size(); ++id) {
    if (ast.kind(id) != Kind::kImportStatement && ast.kind(id) != Kind::kImportFromStatement) continue;
    int scope = names.scope_of(id);
    Scope::Kind kind = names.scopes()[scope].kind;
    if ((kind != Scope::kModule && kind != Scope::kFunction) || points_.count(scope)) continue;
    if (imports_torch(ast, id) && !only_for_types(ast, id)) points_[scope] = id;
  }
  const Scope& module = names.scopes()[0];
  auto bound = module.names.find("torch_npu");
  if (bound != module.names.end())
    for (const Binding& binding : bound->second)
      present_ = present_ || (binding.kind == Binding::kImport && binding.path == "torch_npu");
  if (points_.count(0)) {
    NodeId first = points_[0];
    points_.clear();
    points_[0] = first;
  }
}

bool ImportPlan::visible(NodeId node) const {
  int found = 0;
  if (const auto* bindings = names_.lookup("torch_npu", names_.scope_of(node), &found)) {
    for (const Binding& binding : *bindings)
      if (binding.kind != Binding::kImport || binding.path != "torch_npu") return false;
    return true;
  }
  for (int scope = names_.scope_of(node); scope >= 0; scope = names_.scopes()[scope].parent)
    if (points_.count(scope)) return true;
  return false;
}

bool ImportPlan::reachable(NodeId node) const {
  for (int scope = names_.scope_of(node); scope >= 0; scope = names_.scopes()[scope].parent)
    if (points_.count(scope)) return true;
  return false;
}

void ImportPlan::add(const std::string& module, NodeId user) {
  for (int scope = names_.scope_of(user); scope >= 0; scope = names_.scopes()[scope].parent)
    if (points_.count(scope)) {
      if (!names_.scopes()[scope].names.count(module)) modules_[scope].insert(module);
      return;
    }
}

void ImportPlan::add_from(const std::string& module, const std::string& name) {
  if (!names_.scopes()[0].names.count(name)) from_.insert({module, name});
}

void ImportPlan::carry_out_from(Edits* edits) const {
  const Ast& ast = names_.ast();
  for (const auto& [module, name] : from_) {
    // After the docstring and `from __future__`, before everything else.
    for (NodeId statement : ast.named_children(ast.root())) {
      bool text =
          ast.kind(statement) == Kind::kExpressionStatement && ast.kind(ast.named_child(statement, 0)) == Kind::kString;
      if (text || ast.kind(statement) == Kind::kFutureImport) continue;
      edits->insert(ast[statement].start, as_statement_before(ast, statement, "from " + module + " import " + name),
                    "add import of " + name);
      break;
    }
  }
}

void ImportPlan::carry_out(Edits* edits, bool all) const {
  const Ast& ast = names_.ast();
  for (const auto& [scope, modules] : modules_)
    for (const std::string& module : modules) {
      NodeId statement = points_.at(scope);
      edits->insert(ast[statement].start, as_statement_before(ast, statement, "import " + module),
                    "add import " + module);
    }
  if (present_) return;
  std::vector<Edit> made = edits->sorted();
  if (made.empty() && !all) return;
  for (const auto& [scope, statement] : points_) {
    const Scope& where = names_.scopes()[scope];
    if (where.names.count("torch_npu")) continue;
    bool needed = scope == 0;
    for (const Edit& edit : made)
      needed = needed || (edit.start >= ast[where.node].start && edit.start < ast[where.node].end);
    if (needed)
      edits->insert(ast[statement].start, as_statement_before(ast, statement, "import torch_npu"),
                    "add import torch_npu", true);
  }
}

std::string as_statement_before(const Ast& ast, NodeId where, std::string_view statement) {
  const Source& source = ast.source();
  uint32_t start = ast[where].start;
  int line = source.line_of(start);
  uint32_t line_start = line == 1 ? source.text_start() : source.line_start(line);
  std::string_view before = source.text(line_start, start);
  std::string text(statement);
  size_t above = line_start;  // the end of the line above, without its newline
  while (above > 0 && (source.text(above - 1, above) == "\n" || source.text(above - 1, above) == "\r")) --above;
  bool continued = above > 0 && above < line_start && source.text(above - 1, above) == "\\";
  if (continued || before.find_first_not_of(" \t\f") != std::string_view::npos) return text + "; ";
  return text + std::string(source.newline()) + std::string(before);
}

}  // namespace migrate
