// -s and -m: calls that go through a package this tool writes beside the scripts. -s replaces APIs that the version's list
// calls unsupported by exact equivalents (data/equivalents.tsv); -m sends paths through ModelArtsPathManager.
#include <algorithm>

#include "migrate/src/embedded.h"
#include "migrate/src/pass.h"

namespace migrate {
namespace {

// ascend_function's name for an API, or empty.
std::string_view equivalent(std::string_view api) {
  std::string_view table = embedded("data/equivalents.tsv");
  while (!table.empty()) {
    size_t end = std::min(table.find('\n'), table.size());
    std::string_view row = table.substr(0, end);
    size_t tab = row.find('\t');
    if (row.substr(0, tab) == api) return row.substr(tab + 1);
    table.remove_prefix(std::min(end + 1, table.size()));
  }
  return {};
}

struct PathCall {
  std::string_view function, keyword;
  int position;
};
// Functions that open or look at a path: which argument it is.
constexpr PathCall kPathCalls[] = {
    {"builtins.open", "file", 0},
    {"torch.load", "f", 0},
    {"torch.save", "f", 1},
    {"torch.jit.load", "f", 0},
    {"os.path.exists", "path", 0},
    {"os.path.isfile", "path", 0},
    {"os.path.isdir", "s", 0},
    {"os.path.getsize", "filename", 0},
    {"os.listdir", "path", 0},
    {"os.makedirs", "name", 0},
    {"os.mkdir", "path", 0},
    {"os.walk", "top", 0},
    {"os.scandir", "path", 0},
    {"os.remove", "path", 0},
    {"glob.glob", "pathname", 0},
    {"shutil.copyfile", "src", 0},
    {"shutil.copyfile", "dst", 1},
    {"shutil.copy", "src", 0},
    {"shutil.copy", "dst", 1},
    {"shutil.rmtree", "path", 0},
    {"numpy.load", "file", 0},
    {"numpy.save", "file", 0},
    {"numpy.loadtxt", "fname", 0},
    {"numpy.fromfile", "file", 0},
    {"pandas.read_csv", "filepath_or_buffer", 0},
    {"PIL.Image.open", "fp", 0},
    {"cv2.imread", "filename", 0},
    {"cv2.imwrite", "filename", 0},
    {"torchvision.datasets.ImageFolder", "root", 0},
    {"torchvision.datasets.DatasetFolder", "root", 0},
    {"torchvision.datasets.CIFAR10", "root", 0},
    {"torchvision.datasets.CIFAR100", "root", 0},
    {"torchvision.datasets.MNIST", "root", 0},
    {"torchvision.datasets.FashionMNIST", "root", 0},
    {"torchvision.datasets.ImageNet", "root", 0},
    {"torchvision.io.read_image", "path", 0},
    {"torch.utils.tensorboard.SummaryWriter", "log_dir", 0},
};

}  // namespace

void replace_unsupported(Pass& pass) {
  const Ast& ast = pass.ast;
  for (NodeId id = 0; id < ast.size(); ++id) {
    Kind kind = ast.kind(id);
    if (kind == Kind::kImportStatement || kind == Kind::kImportFromStatement) {
      id = ast[id].last;
      continue;
    }
    if (kind != Kind::kAttribute && kind != Kind::kIdentifier) continue;
    Kind above = ast.kind(ast.parent(id));
    Field field = ast[id].field;
    if (field == Field::kAttribute || (field == Field::kObject && above == Kind::kAttribute)) continue;
    if (above == Kind::kKeywordArgument && field == Field::kName) continue;
    if (field == Field::kLeft && above == Kind::kAssignment) continue;
    std::string path = pass.path(id);
    if (!path.starts_with("torch.") || path.find('(') != std::string::npos) continue;
    std::string_view name = equivalent(path);
    bool cuda = starts_with_path(path, "torch.cuda");
    bool missing =
        cuda ? pass.rules.cuda_name(std::string_view(path).substr(std::min<size_t>(path.size(), 11))).status ==
                   CudaName::kNone
             : pass.rules.support(path, pass.settings.version) == Support::kNo;
    if (!missing) continue;
    if (name.empty() || !pass.imports.reachable(id)) {
      if (cuda) pass.find(Finding::kUnsupported, id, path, "no counterpart on an NPU and no exact equivalent");
      continue;  // give_advice lists the others
    }
    pass.imports.add("ascend_function", id);
    pass.replace(id, "ascend_function." + std::string(name));
    pass.used_functions.push_back(path);
  }
}

void map_modelarts_paths(Pass& pass) {
  const Ast& ast = pass.ast;
  for (NodeId id = 0; id < ast.size(); ++id) {
    if (ast.kind(id) != Kind::kCall) continue;
    std::string path = pass.path(ast.child(id, Field::kFunction));
    if (path.empty()) continue;
    for (const PathCall& call : kPathCalls) {
      if (path != call.function) continue;
      NodeId argument = call_argument(ast, id, call.keyword, call.position);
      if (argument == kNoNode || ast.kind(argument) == Kind::kInteger) continue;
      if (ast.text(argument).starts_with("ModelArtsPathManager()")) continue;
      pass.imports.add_from("ascend_modelarts_function.modelarts_path_manager", "ModelArtsPathManager");
      pass.edits.insert(ast[argument].start, "ModelArtsPathManager().get_path(", "map the path");
      pass.edits.insert(ast[argument].end, ")", "map the path");
    }
  }
}

}  // namespace migrate
