// Names in expressions: torch.cuda.X by what it resolves to, names that moved, and the members .cuda(), .is_cuda of
// tensors and modules by their place. Imports are rewrite_imports.cpp; what a name is, names.h knows.
#include <algorithm>

#include "migrate/src/pass.h"

namespace migrate {
namespace {

constexpr std::string_view kActivity = "torch.profiler.ProfilerActivity.CUDA";

std::string_view below_cuda(std::string_view path) {
  return path.size() <= kCuda.size() ? std::string_view() : path.substr(kCuda.size() + 1);
}

class NameRewriter {
 public:
  explicit NameRewriter(Pass& pass) : pass_(pass), ast_(pass.ast) {}

  void run() {
    for (NodeId id = 0; id < ast_.size(); ++id) {
      Kind kind = ast_.kind(id);
      if (kind == Kind::kImportStatement || kind == Kind::kImportFromStatement || kind == Kind::kFutureImport) {
        id = ast_[id].last;
      } else if (kind == Kind::kAttribute) {
        bool part = ast_.kind(ast_.parent(id)) == Kind::kAttribute && ast_[id].field == Field::kObject;
        if (part || !chain(id)) member(id);
      } else if (kind == Kind::kIdentifier) {
        lone(id);
      } else if (kind == Kind::kFunctionDefinition) {
        definition(id);
      }
    }
  }

 private:
  // The whole of a.b.c. True if its meaning is known and dealt with.
  bool chain(NodeId top) {
    std::string path = pass_.path(top);
    if (path.empty()) return false;
    if (path == "torch.distributed.Backend.NCCL" || path == "torch.distributed.distributed_c10d.Backend.NCCL") {
      NodeId last = ast_.child(top, Field::kAttribute);
      if (ast_.text(last) == "NCCL") pass_.replace(last, "HCCL");
      return true;
    }
    if (path.find('(') == std::string::npos) {
      if (starts_with_path(path, kCuda)) return cuda_chain(top, path), true;
      if (!pass_.rules.moved_name(path).empty()) return moved_chain(top, path);
    }
    return false;
  }

  // The attribute node in the chain whose text is the last part of `wanted`, its object being the rest of it.
  NodeId segment(NodeId top, std::string_view wanted) const {
    for (NodeId at = top; ast_.kind(at) == Kind::kAttribute; at = ast_.child(at, Field::kObject)) {
      NodeId name = ast_.child(at, Field::kAttribute);
      std::string_view text = ast_.text(name);
      if (pass_.path(at) != wanted) continue;
      std::string object = pass_.path(ast_.child(at, Field::kObject));
      if (object + "." + std::string(text) == wanted) return name;
      return kNoNode;  // the name comes from an alias above: nothing to edit here
    }
    return kNoNode;
  }

  void cuda_chain(NodeId top, const std::string& path) {
    std::string_view below = below_cuda(path);
    CudaName name = pass_.rules.cuda_name(below);
    if (name.status == CudaName::kNone) {
      const Advice* advice = pass_.rules.advice(path);
      if (!pass_.settings.replace_unsupported)
        pass_.find(Finding::kUnsupported, top, path, advice ? advice->tips : "no counterpart on an NPU");
      return;
    }
    if (name.status == CudaName::kShared) {
      if (segment(top, kCuda) == kNoNode)
        pass_.find(Finding::kUnsupported, top, path, "write torch." + name.target + ": torch.npu has no such name");
      return;
    }
    if (name.status == CudaName::kUnknown)
      pass_.find(Finding::kUnknown, top, path,
                 "not in the list of torch.cuda names: check torch.npu." + std::string(below));
    std::string_view call = is_callee(ast_, top) ? pass_.rules.call_name(path) : std::string_view();
    if (!call.empty() && pass_.imports.visible(top) && !has_comment(ast_, top)) {
      pass_.replace(top, std::string(call));
      return;
    }
    NodeId cuda = segment(top, kCuda);
    if (cuda != kNoNode) pass_.replace(cuda, "npu");
    if (!below.empty() && ast_.child(top, Field::kAttribute) != cuda) member(top);  // torch.cuda.FloatTensor.cuda(x)
    if (name.status == CudaName::kRenamed)
      rename_tail(top, path, std::string(kCuda) + "." + name.target, cuda != kNoNode);
  }

  // Parts of the path that have another name on the NPU, from the end; those an alias stands for are its import's.
  void rename_tail(NodeId top, const std::string& from, const std::string& to, bool) {
    NodeId at = top;
    std::string_view old_rest = from, new_rest = to;
    while (ast_.kind(at) == Kind::kAttribute && old_rest != new_rest) {
      size_t old_dot = old_rest.rfind('.'), new_dot = new_rest.rfind('.');
      if (old_dot == std::string_view::npos || new_dot == std::string_view::npos) return;
      std::string_view old_part = old_rest.substr(old_dot + 1), new_part = new_rest.substr(new_dot + 1);
      NodeId name = ast_.child(at, Field::kAttribute);
      if (ast_.text(name) == old_part && old_part != new_part) pass_.replace(name, std::string(new_part));
      old_rest = old_rest.substr(0, old_dot), new_rest = new_rest.substr(0, new_dot);
      at = ast_.child(at, Field::kObject);
    }
  }

  bool moved_chain(NodeId top, const std::string& path) {
    std::string target = pass_.rules.moved_name(path);
    if (path == kActivity) target = "torch_npu.profiler.ProfilerActivity.NPU";
    NodeId base = top;
    while (ast_.kind(base) == Kind::kAttribute) base = ast_.child(base, Field::kObject);
    if (!pass_.rules.moved_name(pass_.path(base)).empty()) {  // its import is rewritten
      if (path == kActivity) pass_.replace(ast_.child(top, Field::kAttribute), "NPU");
      return true;
    }
    if (target.starts_with("torch_npu.") && !pass_.imports.visible(top)) {
      pass_.find(Finding::kNotice, top, path, "is " + target + " on an NPU; torch_npu is not imported here");
      return true;
    }
    pass_.replace(top, target);
    return true;
  }

  // A name on its own that an import made: is_available() after `from torch.cuda import is_available`.
  void lone(NodeId id) {
    Kind above = ast_.kind(ast_.parent(id));
    Field field = ast_[id].field;
    if (field == Field::kAttribute || (field == Field::kObject && above == Kind::kAttribute)) return;
    if (above == Kind::kKeywordArgument && field == Field::kName) return;
    if (!is_callee(ast_, id)) return;
    const std::vector<Binding>* bindings = pass_.names.lookup(id);
    if (!bindings || std::any_of(bindings->begin(), bindings->end(), [](const Binding& b) {
          return b.kind != Binding::kImport && b.kind != Binding::kRelative;
        }))
      return;
    std::string path = pass_.path(id);
    if (!starts_with_path(path, kCuda) || path.find('(') != std::string::npos) return;
    std::string_view call = pass_.rules.call_name(path);
    if (!call.empty() && pass_.imports.visible(id))
      pass_.replace(id, std::string(call));
    else if (pass_.rules.cuda_name(below_cuda(path)).status == CudaName::kNone && !pass_.settings.replace_unsupported)
      pass_.find(Finding::kUnsupported, id, path, "no counterpart on an NPU");
  }

  bool is_torch_class(std::string_view path) const {
    if (path == "torch.Tensor" || path == "torch.nn.Module") return true;
    size_t dot = path.rfind('.');
    return path.starts_with("torch.nn.") && path.find('(') == std::string_view::npos && dot + 1 < path.size() &&
           isupper(static_cast<unsigned char>(path[dot + 1]));
  }

  // One attribute access, whatever its object: x.cuda(), x.is_cuda, stream.cuda_stream.
  void member(NodeId id) {
    NodeId name = ast_.child(id, Field::kAttribute), object = ast_.child(id, Field::kObject);
    std::string_view text = ast_.text(name);
    if (text == "cuda") {
      if (moves_to_device(id, object)) pass_.replace(name, "npu");
    } else if (text == "is_cuda") {
      std::string path = pass_.path(object);
      if (!pass_.rules.foreign(path) && !looks_like_options(ast_.text(object))) pass_.replace(name, "is_npu");
    } else if (text == "cuda_stream" || text == "cuda_event") {
      if (!pass_.rules.foreign(pass_.path(object)))
        pass_.replace(name, text == "cuda_stream" ? "npu_stream" : "npu_event");
    }
  }

  // Is `object.cuda` the method that moves a tensor or module?
  bool moves_to_device(NodeId id, NodeId object) {
    std::string path = pass_.path(object);
    if (is_torch_class(path)) return true;
    if (!is_called(ast_, id) || pass_.rules.foreign(path) || path == "torch") return false;
    if (path.starts_with("project:")) return false;  // a function of one of the tree's modules
    if (path == "torch_npu" || starts_with_path(path, "torch.backends") || path == "torch.version") return false;
    if (ast_.kind(object) == Kind::kIdentifier) {
      const std::vector<Binding>* bindings = pass_.names.lookup(object);
      if (bindings)
        for (const Binding& binding : *bindings)  // import m; m.cuda(): a function of a module
          if (ast_.kind(binding.node) == Kind::kImportStatement) return false;
      if (ast_.text(object) == "self" && assigns_own_cuda(id)) return false;
    }
    return true;
  }

  // Does the class around it set self.cuda to something of its own?
  bool assigns_own_cuda(NodeId id) const {
    NodeId holder = ast_.ancestor(id, Kind::kClassDefinition);
    if (holder == kNoNode) return false;
    for (NodeId at = holder; at <= ast_[holder].last; ++at)
      if (ast_.kind(at) == Kind::kAttribute && ast_.text(at) == "self.cuda" && ast_[at].field == Field::kLeft)
        return true;
    return false;
  }

  // A class with its own cuda(): renamed with its callers. A property stays, and so do its readers.
  void definition(NodeId id) {
    NodeId name = ast_.child(id, Field::kName);
    std::string_view text = ast_.text(name);
    if (text != "cuda" && text != "is_cuda") return;
    NodeId above = ast_.parent(id);
    bool property = false;
    if (ast_.kind(above) == Kind::kDecoratedDefinition) {
      for (NodeId c : ast_.named_children(above))
        if (ast_.kind(c) == Kind::kDecorator && ast_.text(c).find("property") != std::string_view::npos)
          property = true;
      above = ast_.parent(above);
    }
    NodeId holder = ast_.parent(above);
    if (ast_.kind(above) != Kind::kBlock || ast_.kind(holder) != Kind::kClassDefinition) return;
    if (text == "cuda" && property) return;
    std::string_view renamed = text == "cuda" ? "npu" : "is_npu";
    for (const Scope& scope : pass_.names.scopes())
      if (scope.node == holder && scope.names.count(renamed)) return;
    pass_.replace(name, std::string(renamed));
  }

  Pass& pass_;
  const Ast& ast_;
};

}  // namespace

void rewrite_names(Pass& pass) { NameRewriter(pass).run(); }

}  // namespace migrate
