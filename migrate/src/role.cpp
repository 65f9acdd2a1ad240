// See role.h. Lists of names decide what is for people, files and dictionaries; everything else is a value.
#include "migrate/src/role.h"

#include <algorithm>
#include <initializer_list>

#include "migrate/src/template.h"

namespace migrate {
namespace {

using Names_ = std::initializer_list<std::string_view>;

bool one_of(std::string_view name, Names_ names) { return std::find(names.begin(), names.end(), name) != names.end(); }

// The last name of what is called.
std::string_view callee_name(const Ast& ast, NodeId call) {
  NodeId function = ast.child(call, Field::kFunction);
  if (ast.kind(function) == Kind::kAttribute) return ast.text(ast.child(function, Field::kAttribute));
  return ast.kind(function) == Kind::kIdentifier ? ast.text(function) : std::string_view();
}

bool for_people(std::string_view name) {
  return one_of(name, {"print",
                       "pprint",
                       "debug",
                       "info",
                       "warning",
                       "warn",
                       "error",
                       "critical",
                       "exception",
                       "log",
                       "write",
                       "add_parser",
                       "set_title",
                       "title",
                       "xlabel",
                       "ylabel",
                       "legend",
                       "skipTest",
                       "fail",
                       "echo",
                       "secho",
                       "add_subparsers",
                       "add_text",
                       "add_scalar",
                       "set_description",
                       "set_postfix_str",
                       "notice",
                       "fatal",
                       "success",
                       "check_output_text"}) ||
         name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Warning");
}

bool of_files(std::string_view name, std::string_view path) {
  if (one_of(name, {"open",     "Path",  "PurePath", "PosixPath", "makedirs",    "mkdir",        "exists",
                    "isfile",   "isdir", "listdir",  "unlink",    "rmtree",      "copyfile",     "copytree",
                    "rglob",    "iglob", "basename", "dirname",   "abspath",     "with_name",    "with_suffix",
                    "joinpath", "chdir", "scandir",  "read_csv",  "FileHandler", "SummaryWriter"}))
    return true;
  if (name == "join") return path != "" && (path.find("path.join") != std::string_view::npos);
  return one_of(name, {"glob", "remove", "rename", "copy", "move", "walk"}) &&
         (path.starts_with("os.") || path.starts_with("shutil.") || path.starts_with("glob."));
}

// Keywords and variables whose string is not a device even if it spells one.
bool other_purpose(std::string_view name) {
  if (one_of(name,
             {"dest",     "help",     "metavar",     "name",    "title",     "label",    "desc",        "description",
              "prefix",   "suffix",   "msg",         "message", "filename",  "file",     "path",        "dir",
              "folder",   "tag",      "doc",         "usage",   "epilog",    "prog",     "format",      "fmt",
              "key",      "reason",   "group",       "id",      "project",   "run_name", "experiment",  "columns",
              "sep",      "end",      "text",        "__all__", "__slots__", "__doc__",  "__version__", "extra",
              "category", "keywords", "classifiers", "aliases"}))
    return true;
  for (std::string_view tail : {"_path", "_dir", "_file", "_prefix", "_suffix", "_title", "_label", "_msg", "_message",
                                "_folder", "_help", "_key"})
    if (name.size() > tail.size() && name.ends_with(tail)) return true;
  return false;
}

constexpr std::string_view kDeviceTypes[] = {"cuda", "cpu", "mps", "xpu", "npu",  "meta",   "hpu",  "tpu",  "ipu",
                                             "xla",  "gpu", "mlu", "hip", "rocm", "vulkan", "auto", "musa", "mtia"};

// 'cuda' and others, and no 'npu', which is an entry for the NPU already.
bool are_devices(const Ast& ast, const std::vector<NodeId>& keys) {
  bool cuda = false;
  for (NodeId key : keys) {
    if (ast.kind(key) != Kind::kString) return false;
    std::string_view text = literal_content(ast, key);
    std::string_view type = text.substr(0, text.find(':'));
    if (std::find(std::begin(kDeviceTypes), std::end(kDeviceTypes), type) == std::end(kDeviceTypes) || type == "npu")
      return false;
    cuda = cuda || type == "cuda";
  }
  return cuda && keys.size() >= 2;
}

// {'cuda': ..., 'cpu': ...}: indexed by device type, so its keys are devices.
bool is_device_table(const Ast& ast, NodeId dictionary) {
  std::vector<NodeId> keys;
  for (NodeId pair : ast.named_children(dictionary)) {
    if (ast.kind(pair) != Kind::kPair) return false;
    keys.push_back(ast.child(pair, Field::kKey));
  }
  return are_devices(ast, keys);
}

class Finder {
 public:
  explicit Finder(const Pass& pass) : pass_(pass), ast_(pass.ast) {}

  Role find(NodeId whole) {
    NodeId at = whole, above = ast_.parent(at);
    // Through what hands the value on.
    for (;; at = above, above = ast_.parent(above)) {
      Kind kind = ast_.kind(above);
      if (kind == Kind::kParenthesized || kind == Kind::kBooleanOperator || kind == Kind::kTuple ||
          kind == Kind::kList || kind == Kind::kSet || kind == Kind::kExpressionList || kind == Kind::kListSplat)
        continue;
      if (kind == Kind::kConditional && ast_.named_child(above, 1) != at) continue;
      if (kind == Kind::kNamedExpression && ast_[at].field == Field::kValue) continue;
      break;
    }
    Role role;
    switch (ast_.kind(above)) {
      case Kind::kArgumentList:
        return argument(at, above);
      case Kind::kKeywordArgument:
        return keyword(above);
      case Kind::kPair:
        return pair(at, above);
      case Kind::kSubscript:
        return index(at, above);
      case Kind::kComparison:
        return comparison(at, above);
      case Kind::kAssignment:
      case Kind::kAugmentedAssignment:
        return named(ast_.text(ast_.child(above, Field::kLeft)));
      case Kind::kDefaultParameter:
      case Kind::kTypedDefaultParameter:
        return ast_[at].field == Field::kValue ? named(ast_.text(ast_.child(above, Field::kName))) : role;
      case Kind::kExpressionStatement:
        return statement(at, above);
      case Kind::kType:
        role.kind = in_literal(above) ? Role::kValue : Role::kCode;
        return role;
      case Kind::kRaiseStatement:
        role.kind = Role::kProse;
        return role;
      case Kind::kAssertStatement:
        role.kind = ast_.named_child(above, 0) == at ? Role::kValue : Role::kProse;
        return role;
      case Kind::kCasePattern:
        role.compared = true;
        return role;
      case Kind::kDictPattern:
        return mapping(above);
      case Kind::kAttribute:
        return method(above);
      case Kind::kInterpolation:
        role.kind = leads_f_string(above) ? Role::kValue : Role::kProse;
        return role;
      case Kind::kBinaryOperator:
        return operand(at, above);
      default:
        return role;
    }
  }

 private:
  // f'{"cuda" if ok else "cpu"}:{i}': the value begins with it and only an index follows.
  bool leads_f_string(NodeId interpolation) const {
    NodeId string = ast_.parent(interpolation);
    if (ast_.kind(string) != Kind::kString) return false;
    Template value = read_template(ast_, template_root(ast_, string));
    bool first = !value.where.empty() && value.where[0] == ast_[interpolation].start;
    return first && value.leads && (value.text.size() == 1 || value.text[1] == ':');
  }

  // Literal['cuda', 'cpu'] in an annotation.
  bool in_literal(NodeId type) const {
    NodeId generic = ast_.parent(ast_.parent(type));
    std::string_view text = ast_.text(generic);
    return text.substr(0, text.find('[')).ends_with("Literal") && text.find('[') != std::string_view::npos;
  }

  // '%s:%d' % ('cuda', i) is a device, 'on %s' % 'cuda' is prose.
  Role operand(NodeId at, NodeId operation) const {
    Role role;
    NodeId left = ast_.child(operation, Field::kLeft);
    if (left == at || ast_.kind(left) != Kind::kString) return role;
    std::string_view text = literal_content(ast_, left);
    if (!(text == "%s" || text.starts_with("%s:"))) role.kind = Role::kProse;
    return role;
  }

  Role named(std::string_view target) const {
    Role role;
    size_t dot = target.rfind('.');
    if (dot != std::string_view::npos) target = target.substr(dot + 1);
    if (other_purpose(target)) role.kind = Role::kProse;
    return role;
  }

  Role statement(NodeId at, NodeId above) const {
    Role role;
    NodeId block = ast_.parent(above);
    bool first = ast_.named_child(block, 0) == above &&
                 (ast_.kind(at) == Kind::kString || ast_.kind(at) == Kind::kConcatenatedString);
    if (first) role.kind = Role::kProse;  // a docstring
    return role;
  }

  // 'cuda'.join(...), 'cuda'.upper()
  Role method(NodeId attribute) const {
    Role role;
    std::string_view name = ast_.text(ast_.child(attribute, Field::kAttribute));
    if (name == "join" || name == "center" || name == "ljust" || name == "rjust") role.kind = Role::kProse;
    return role;
  }

  Role keyword(NodeId keyword) const {
    std::string_view name = ast_.text(ast_.child(keyword, Field::kName));
    NodeId call = ast_.parent(ast_.parent(keyword));
    Role role;
    role.call = call;
    std::string_view callee = ast_.kind(call) == Kind::kCall ? callee_name(ast_, call) : std::string_view();
    if (other_purpose(name) || (for_people(callee) && callee != "write")) role.kind = Role::kProse;
    return role;
  }

  Role argument(NodeId at, NodeId list) const {
    Role role;
    NodeId call = ast_.parent(list);
    if (ast_.kind(call) != Kind::kCall) return role;
    role.call = call;
    int index = 0;
    for (NodeId c : ast_.named_children(list)) {
      if (c == at) break;
      if (ast_.kind(c) != Kind::kKeywordArgument) ++index;
    }
    NodeId function = ast_.child(call, Field::kFunction);
    std::string_view name = callee_name(ast_, call);
    std::string path = pass_.path(function);
    if (path.empty()) path = ast_.text(function);  // not imported here: by its spelling
    bool one = at == first_of(call, index);
    if (for_people(name)) {
      role.kind = Role::kProse;
    } else if (name == "format" && ast_.kind(ast_.child(function, Field::kObject)) == Kind::kString) {
      std::string_view text = literal_content(ast_, ast_.child(function, Field::kObject));
      if (index != 0 || !text.starts_with("{")) role.kind = Role::kProse;
    } else if (name == "add_argument" || name == "add_option") {
      role.kind = Role::kProse;
    } else if (of_files(name, path)) {
      role.kind = Role::kPath;
    } else if (one_of(name, {"getattr", "hasattr", "setattr", "delattr"}) && index == 1) {
      role.kind = Role::kAttribute;
    } else if (one_of(name, {"namedtuple", "NamedTuple", "make_dataclass", "TypedDict", "Enum", "IntEnum", "StrEnum",
                             "Flag", "IntFlag"}) &&
               index == 1) {
      role.kind = Role::kProse;  // names of fields, which the program spells as attributes
    } else if (one_of(name, {"attrgetter", "methodcaller"})) {
      role.kind = Role::kAttribute;
    } else if (one_of(name, {"eval", "exec", "compile", "Timer", "timeit", "literal_eval"})) {
      role.kind = path.starts_with("torch.compile") ? Role::kValue : Role::kCode;
    } else if (one_of(name, {"import_module", "__import__", "find_spec", "importorskip", "patch"})) {
      role.kind = Role::kModule;
    } else if (path.starts_with("re.")) {
      role.pattern = index == 0;
    } else if (one && index == 0 && ast_.kind(function) == Kind::kAttribute &&
               one_of(name, {"get", "pop", "setdefault", "has_key", "__getitem__", "__contains__"})) {
      if (!is_table(ast_.child(function, Field::kObject))) role.kind = Role::kKey;
    } else if (pass_.rules.foreign_device(path)) {
      role.kind = Role::kProse;
    } else if (one_of(name, {"skip", "skipIf", "skipUnless", "skipif", "mark"}) && index > 0) {
      role.kind = Role::kProse;
    } else if (one_of(name, {"CUDAExtension", "CppExtension", "Extension", "load", "load_inline"}) && index == 0 &&
               (path.find("cpp_extension") != std::string::npos || path.find("setuptools") != std::string::npos)) {
      role.kind = Role::kProse;
    }
    return role;
  }

  NodeId first_of(NodeId call, int index) const { return call_argument(ast_, call, "", index); }

  // What a name was assigned, if it was once; another expression itself.
  NodeId assigned(NodeId object) const {
    if (ast_.kind(object) != Kind::kIdentifier) return object;
    const std::vector<Binding>* bindings = pass_.names.lookup(object);
    return bindings && bindings->size() == 1 ? (*bindings)[0].value : kNoNode;
  }

  // Does it stand for a dictionary by device type?
  bool is_table(NodeId object) const {
    NodeId value = assigned(object);
    return ast_.kind(value) == Kind::kDictionary && is_device_table(ast_, value);
  }

  // d.keys(): d
  NodeId keys_of(NodeId object) const {
    if (ast_.kind(object) != Kind::kCall) return object;
    NodeId function = ast_.child(object, Field::kFunction);
    bool keys = ast_.kind(function) == Kind::kAttribute && callee_name(ast_, object) == "keys";
    return keys ? ast_.child(function, Field::kObject) : object;
  }

  // Is it a dictionary with such keys? By its making, else by its name.
  bool is_mapping(NodeId object) const {
    NodeId value = assigned(object);
    if (ast_.kind(value) == Kind::kDictionary)
      for (NodeId pair : ast_.named_children(value))
        if (literal_content(ast_, ast_.child(pair, Field::kKey)) == "cuda") return true;
    if (ast_.kind(value) == Kind::kCall && one_of(callee_name(ast_, value), {"dict", "OrderedDict"}) &&
        call_argument(ast_, value, "cuda", -1) != kNoNode)
      return true;
    std::string_view text = ast_.text(object);
    return text.ends_with(".keys()") || text.ends_with(".__dict__") || text.starts_with("vars(") ||
           text.starts_with("dir(") || text.starts_with("globals(") || looks_like_options(text) ||
           text.ends_with("state_dict") || text.ends_with("_dict") || text.ends_with("_map");
  }

  // case {'cuda': x}: a key of what is matched.
  Role mapping(NodeId pattern) const {
    Role role;
    role.compared = true;
    std::vector<NodeId> keys;
    for (NodeId c : ast_.named_children(pattern))
      if (ast_[c].field == Field::kKey) keys.push_back(c);
    NodeId subject = ast_.child(ast_.ancestor(pattern, Kind::kMatchStatement), Field::kSubject);
    bool whole = ast_.kind(ast_.parent(ast_.parent(pattern))) == Kind::kCaseClause;
    if (!are_devices(ast_, keys) && !(whole && is_table(subject))) role.kind = Role::kKey;
    return role;
  }

  Role pair(NodeId at, NodeId pair) const {
    Role role;
    NodeId dictionary = ast_.parent(pair);
    if (ast_[at].field != Field::kKey) {
      NodeId key = ast_.child(pair, Field::kKey);
      return ast_.kind(key) == Kind::kString ? named(literal_content(ast_, key)) : role;
    }
    NodeId above = ast_.parent(dictionary);
    bool maps =
        ast_.kind(above) == Kind::kKeywordArgument && ast_.text(ast_.child(above, Field::kName)) == "map_location";
    if (!maps && !is_device_table(ast_, dictionary)) role.kind = Role::kKey;
    return role;
  }

  Role index(NodeId at, NodeId subscript) const {
    Role role;
    NodeId value = ast_.child(subscript, Field::kValue);
    if (at == value) return role;
    std::string_view name = ast_.text(value);
    if (name == "Literal" || name.ends_with(".Literal")) return role;
    if (!is_table(value)) role.kind = Role::kKey;
    return role;
  }

  Role comparison(NodeId at, NodeId comparison) const {
    Role role;
    role.compared = true;
    bool membership = false;
    for (NodeId c = ast_[comparison].first_child; c != kNoNode; c = ast_[c].next) {
      std::string_view op = ast_.text(c);
      if (!ast_[c].named && (op == "in" || op == "not in" || op == "not")) membership = true;
    }
    std::vector<NodeId> operands = ast_.named_children(comparison);
    for (NodeId other : operands) {
      if (other == at) continue;
      std::string_view text = ast_.text(other);
      if (pass_.rules.foreign_device(pass_.path(other))) role.kind = Role::kProse;
      bool holder = membership ? operands.size() == 2 && operands[0] == at : text.ends_with(".keys()");
      if (holder && is_mapping(other) && !is_table(keys_of(other))) role.kind = Role::kKey;
      if (!membership && (text == "key" || text == "k")) role.kind = Role::kKey;
    }
    return role;
  }

  const Pass& pass_;
  const Ast& ast_;
};

}  // namespace

Role role_of(const Pass& pass, NodeId whole) { return Finder(pass).find(whole); }

}  // namespace migrate
