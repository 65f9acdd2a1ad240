// What is listed and not changed: API support, third-party packages, performance and precision advice, CUDA extensions.
#include <algorithm>
#include <set>

#include "migrate/src/pass.h"

namespace migrate {
namespace {

Finding::Category category(Advice::Category from) {
  switch (from) {
    case Advice::kPerformance:
      return Finding::kPerformance;
    case Advice::kPrecision:
      return Finding::kPrecision;
    case Advice::kThirdParty:
      return Finding::kThirdParty;
    case Advice::kCudaOp:
      return Finding::kCudaOp;
    case Advice::kUnsupported:
      return Finding::kUnsupported;
    default:
      return Finding::kNotice;
  }
}

class Adviser {
 public:
  explicit Adviser(Pass& pass) : pass_(pass), ast_(pass.ast) {}

  void run() {
    for (NodeId id = 0; id < ast_.size(); ++id) {
      switch (ast_.kind(id)) {
        case Kind::kImportStatement:
        case Kind::kImportFromStatement:
          packages(id);
          id = ast_[id].last;
          break;
        case Kind::kAttribute:
          if (ast_.kind(ast_.parent(id)) != Kind::kAttribute || ast_[id].field != Field::kObject) api(id);
          break;
        case Kind::kIdentifier:
          if (ast_[id].field != Field::kAttribute && ast_[id].field != Field::kObject &&
              ast_.kind(ast_.parent(id)) != Kind::kKeywordArgument)
            api(id);
          break;
        default:
          break;
      }
    }
  }

 private:
  void packages(NodeId statement) {
    std::vector<NodeId> names = ast_.named_children(statement);
    bool from = ast_.kind(statement) == Kind::kImportFromStatement;
    for (NodeId part : names) {
      NodeId name = ast_.kind(part) == Kind::kAliasedImport ? ast_.child(part, Field::kName) : part;
      std::string root(root_package(ast_.text(name)));
      const Advice* advice = pass_.rules.third_party(root);
      if (advice) pass_.find(root == "amp_C" ? Finding::kUnsupported : Finding::kThirdParty, part, root, advice->tips);
      if (from) break;  // the module only
    }
  }

  void api(NodeId id) {
    std::string path = pass_.path(id);
    // torch.zeros().to_sparse_csr(): what a torch function returns is a tensor unless it is a class.
    if (size_t call = path.find("()."); call != std::string::npos && path.starts_with("torch.")) {
      size_t last = path.rfind("().");
      std::string maker = path.substr(0, call);
      size_t dot = maker.rfind('.');
      bool function = islower(static_cast<unsigned char>(maker[dot + 1])) && !maker.starts_with("torch.cuda") &&
                      !maker.starts_with("torch.utils") && !maker.starts_with("torch.distributed") &&
                      !maker.starts_with("torch.jit");
      if (!function || path.find('.', last + 3) != std::string::npos || path.ends_with("()")) return;
      path = "torch.Tensor." + path.substr(last + 3);
      if (pass_.rules.support(path, pass_.settings.version) == Support::kUnlisted) return;
    }
    if (!starts_with_path(path, "torch") || path == "torch" || path.find('(') != std::string::npos) return;
    if (!seen_.insert({ast_.line(id), path}).second) return;
    const Advice* advice = pass_.rules.advice(path);
    bool cuda = starts_with_path(path, "torch.cuda");
    Support support = pass_.rules.support(path, pass_.settings.version);
    const std::vector<std::string>& replaced = pass_.used_functions;  // by -s
    if (std::find(replaced.begin(), replaced.end(), path) != replaced.end()) return;
    if (support == Support::kNo && !cuda) {
      pass_.find(Finding::kUnsupported, id, path,
                 advice ? advice->tips : "not supported on an NPU with PyTorch " + pass_.settings.version);
      return;
    }
    if (advice && (!cuda || advice->category == Advice::kPerformance || advice->category == Advice::kPrecision)) {
      pass_.find(category(advice->category), id, path, advice->tips);
    } else if ((support == Support::kDoubt || support == Support::kAbsent) && !cuda) {
      pass_.find(Finding::kUnknown, id, path,
                 support == Support::kDoubt ? "no statement about it for PyTorch " + pass_.settings.version
                                            : "not in PyTorch " + pass_.settings.version);
    } else if (support == Support::kLimits && pass_.settings.analyse) {
      pass_.find(Finding::kLimited, id, path, "computed on the CPU with copies, or in part");
    }
  }

  Pass& pass_;
  const Ast& ast_;
  std::set<std::pair<int, std::string>> seen_;
};

}  // namespace

void give_advice(Pass& pass) { Adviser(pass).run(); }

}  // namespace migrate
