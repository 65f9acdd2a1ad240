// Import statements: torch.cuda and its parts, names that moved, and modules there is no counterpart of.
// The local name always stays, so uses elsewhere (other files too) keep their meaning.
#include "migrate/src/pass.h"

namespace migrate {
namespace {

// One imported name: what it is called there and here.
struct Part {
  NodeId node, name, alias;
};

// Where an imported name is found for the NPU: module and name; empty module if there is no counterpart.
struct Place {
  std::string module, name;
};

class ImportRewriter {
 public:
  explicit ImportRewriter(Pass& pass) : pass_(pass), ast_(pass.ast) {}

  void run() {
    for (NodeId id = 0; id < ast_.size(); ++id) {
      if (ast_.kind(id) == Kind::kImportStatement) plain(id);
      if (ast_.kind(id) == Kind::kImportFromStatement) from(id);
    }
  }

 private:
  static std::string dotted(std::string_view text) {
    std::string out;
    for (char c : text)
      if (!isspace(static_cast<unsigned char>(c)) && c != '\\') out += c;
    return out;
  }

  // import torch.cuda, torch.cuda.amp as amp, amp_C
  void plain(NodeId statement) {
    std::vector<NodeId> parts = ast_.named_children(statement);
    for (NodeId part : parts) {
      bool aliased = ast_.kind(part) == Kind::kAliasedImport;
      NodeId name = aliased ? ast_.child(part, Field::kName) : part;
      std::string module = dotted(ast_.text(name));
      if (module == "amp_C") {
        remove_kernels(statement, part, parts.size());
      } else if (starts_with_path(module, kCuda)) {
        std::string below = module.size() > kCuda.size() ? module.substr(kCuda.size() + 1) : "";
        CudaName target = pass_.rules.cuda_name(below);
        if (target.status == CudaName::kNone || target.status == CudaName::kRenamed) {
          pass_.find(Finding::kUnsupported, part, module, "no counterpart on an NPU");
        } else if (aliased && !below.empty()) {
          // torch.npu is a name of the package torch_npu.npu, not a package of its own: parts come from there.
          pass_.replace(name, "torch_npu.npu." + below);
        } else {
          pass_.replace(name, "torch.npu");  // binds torch, which has all its parts
        }
      }
    }
  }

  // import amp_C: apex's CUDA kernels. Removed if nothing uses the name, else left and listed.
  void remove_kernels(NodeId statement, NodeId part, size_t count) {
    bool used = false;
    for (NodeId id = 0; id < ast_.size() && !used; ++id)
      used = ast_.kind(id) == Kind::kIdentifier && ast_.text(id) == "amp_C" && !ast_.is_inside(id, statement);
    if (used || count != 1) return;  // the advice pass lists it
    NodeId above = ast_.parent(statement);
    bool alone = ast_.named_children(above).size() == 1;
    const Source& source = ast_.source();
    uint32_t start = ast_[statement].start, end = ast_[statement].end;
    int line = source.line_of(start);
    uint32_t line_start = source.line_start(line);
    bool whole_line = source.text(line_start, start).find_first_not_of(" \t\f") == std::string_view::npos &&
                      source.line_of(end) == line && ast_[statement].next != kNoNode &&
                      source.line_of(ast_[ast_[statement].next].start) > line;
    uint32_t line_end = line < source.line_count() ? source.line_start(line + 1) : source.size();
    whole_line = whole_line || (ast_.kind(above) == Kind::kModule && ast_[statement].next == kNoNode &&
                                source.text(line_start, start).find_first_not_of(" \t\f") == std::string_view::npos &&
                                source.text(end, line_end).find_first_not_of(" \t\r\n") == std::string_view::npos);
    if (alone || !whole_line)
      pass_.edits.replace(start, end, "pass", "remove import amp_C");
    else
      pass_.edits.remove(line_start, line_end, "remove import amp_C");
    (void)part;
  }

  Place place(const std::string& module, const std::string& name) const {
    std::string full = module + "." + name;
    if (starts_with_path(full, kCuda)) {
      if (full == kCuda) return {"torch", "npu"};
      CudaName target = pass_.rules.cuda_name(full.substr(kCuda.size() + 1));
      if (target.status == CudaName::kNone) return {};
      if (target.status == CudaName::kShared) return {module, name};
      if (target.status == CudaName::kSame || target.status == CudaName::kUnknown) {
        std::string below = module.size() > kCuda.size() ? module.substr(kCuda.size()) : "";
        return {(below.empty() ? "torch.npu" : "torch_npu.npu") + below, name};
      }
      // Renamed: only names directly in torch.cuda can be imported under their new name.
      if (module == kCuda && target.target.find('.') == std::string::npos) return {"torch.npu", target.target};
      return {};
    }
    std::string moved = pass_.rules.moved_name(full);
    if (moved.empty()) return {module, name};
    size_t dot = moved.rfind('.');
    return {moved.substr(0, dot), moved.substr(dot + 1)};
  }

  void from(NodeId statement) {
    NodeId module_node = ast_.child(statement, Field::kModuleName);
    std::string module = dotted(ast_.text(module_node));
    if (module.starts_with('.')) return;
    std::vector<Part> parts;
    for (NodeId c : ast_.named_children(statement)) {
      if (c == module_node) continue;
      if (ast_.kind(c) == Kind::kWildcardImport) return wildcard(statement, module_node, module);
      bool aliased = ast_.kind(c) == Kind::kAliasedImport;
      parts.push_back({c, aliased ? ast_.child(c, Field::kName) : c, aliased ? ast_.child(c, Field::kAlias) : kNoNode});
    }
    if (!module.starts_with("torch")) return;
    // Group the names by the module they now come from; the statement keeps the largest group.
    std::vector<Place> places;
    std::vector<std::pair<std::string, int>> groups;
    for (const Part& part : parts) {
      std::string name = dotted(ast_.text(part.name));
      Place found = place(module, name);
      if (found.module.empty()) {
        pass_.find(Finding::kUnsupported, part.node, module + "." + name, "no counterpart on an NPU");
        found = {module, name};
      }
      if (found.module != module || found.name != name) {
        CudaName status = starts_with_path(module, kCuda)
                              ? pass_.rules.cuda_name((module + "." + name).substr(kCuda.size() + 1))
                              : CudaName{CudaName::kSame, ""};
        if (status.status == CudaName::kUnknown)
          pass_.find(Finding::kUnknown, part.node, module + "." + name,
                     "not in the list of torch.cuda names: check torch.npu." + name);
      }
      places.push_back(found);
      bool known = false;
      for (auto& [group, count] : groups)
        if (group == found.module) ++count, known = true;
      if (!known) groups.push_back({found.module, 1});
    }
    if (groups.empty()) return;
    std::string kept = groups[0].first;
    int most = 0;
    for (auto& [group, count] : groups)
      if (count > most || (count == most && kept == module)) kept = group, most = count;
    rename_module(module_node, module, kept);
    std::string moved;
    for (auto& [group, count] : groups) {
      if (group == kept) continue;
      std::string names;
      for (size_t i = 0; i < parts.size(); ++i) {
        if (places[i].module != group) continue;
        names += (names.empty() ? "" : ", ") + written(parts[i], places[i].name);
        remove_part(statement, parts, i, places, kept);
      }
      pass_.edits.insert(ast_[statement].start,
                         as_statement_before(ast_, statement, "from " + group + " import " + names),
                         "import " + names + " from " + group);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (places[i].module != kept || places[i].name == dotted(ast_.text(parts[i].name))) continue;
      if (parts[i].alias != kNoNode)
        pass_.replace(parts[i].name, places[i].name);
      else
        pass_.replace(parts[i].node, written(parts[i], places[i].name));
    }
  }

  // "new as old", so that the name in this file stays.
  std::string written(const Part& part, const std::string& name) const {
    std::string here(ast_.text(part.alias != kNoNode ? part.alias : part.name));
    return name == here ? name : name + " as " + here;
  }

  void rename_module(NodeId node, const std::string& from, const std::string& to) {
    if (from == to) return;
    // Where only "cuda" differs, only that word is edited.
    if (starts_with_path(from, kCuda) && to == "torch.npu" + from.substr(kCuda.size())) {
      for (NodeId c : ast_.named_children(node))
        if (ast_.text(c) == "cuda") return pass_.replace(c, "npu");
    }
    pass_.replace(node, to);
  }

  // Takes one name out of the list with one comma. Comments stay.
  void remove_part(NodeId statement, const std::vector<Part>& parts, size_t index, const std::vector<Place>& places,
                   const std::string& kept) {
    const Source& source = ast_.source();
    NodeId part = parts[index].node;
    std::string message = "move " + std::string(ast_.text(part)) + " to another import";
    NodeId before = kNoNode, after = kNoNode;  // the commas around it
    for (NodeId c = ast_[statement].first_child; c != kNoNode; c = ast_[c].next) {
      if (ast_.text(c) != ",") continue;
      if (c < part)
        before = c;
      else if (after == kNoNode)
        after = c;
    }
    uint32_t start = ast_[part].start, end = after != kNoNode ? ast_[after].end : ast_[part].end;
    int line = source.line_of(start);
    bool blank_before = source.text(source.line_start(line), start).find_first_not_of(" \t") == std::string_view::npos;
    uint32_t line_end = line < source.line_count() ? source.line_start(line + 1) : source.size();
    if (blank_before && after != kNoNode &&
        source.text(end, line_end).find_first_not_of(" \t\r\n") == std::string_view::npos)
      return pass_.edits.remove(source.line_start(line), line_end, message);  // a line of its own
    bool keeps_earlier = false;
    for (size_t i = 0; i < index; ++i) keeps_earlier = keeps_earlier || places[i].module == kept;
    if (after != kNoNode) {
      uint32_t next = index + 1 < parts.size() ? ast_[parts[index + 1].node].start : end;
      bool blank = source.text(end, next).find_first_not_of(" \t") == std::string_view::npos;
      return pass_.edits.remove(start, blank ? next : end, message);
    }
    if (keeps_earlier && before != kNoNode) {
      bool blank = source.text(ast_[before].end, start).find_first_not_of(" \t\r\n") == std::string_view::npos;
      if (blank) return pass_.edits.remove(ast_[before].start, end, message);
      pass_.edits.remove(ast_[before].start, ast_[before].end, message);
    }
    pass_.edits.remove(start, end, message);
  }

  void wildcard(NodeId statement, NodeId node, const std::string& module) {
    if (!starts_with_path(module, kCuda)) return;
    CudaName target = pass_.rules.cuda_name(module.size() > kCuda.size() ? module.substr(kCuda.size() + 1) : "");
    if (target.status == CudaName::kSame) {
      rename_module(node, module, module == kCuda ? "torch.npu" : "torch_npu.npu" + module.substr(kCuda.size()));
    } else {
      pass_.find(Finding::kUnsupported, statement, module, "no counterpart on an NPU");
    }
  }

  Pass& pass_;
  const Ast& ast_;
};

}  // namespace

void rewrite_imports(Pass& pass) { ImportRewriter(pass).run(); }

}  // namespace migrate
