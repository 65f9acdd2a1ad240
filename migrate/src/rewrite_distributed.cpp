// distributed: a script for one card becomes one for several, a process a card. The entry script gets the process group,
// DistributedDataParallel around the model and set_epoch; training loaders get a DistributedSampler, checkpoints are saved
// by rank 0 without DDP's prefix. Scripts that are distributed already are left as they are (run.cpp looks for that).
// Long because all steps belong to one object: each decides by what the others found in the script (the model's names, the loaders).
#include <algorithm>
#include <set>

#include "migrate/src/pass.h"

namespace migrate {
namespace {

constexpr std::string_view kRankZero = "torch.distributed.get_rank() == 0";
constexpr std::string_view kRankZeroIfAny =
    "not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0";

bool contains_word(std::string_view text, std::string_view word) {
  for (size_t i = 0; i + word.size() <= text.size(); ++i) {
    size_t same = 0;
    while (same < word.size() && (text[i + same] | 32) == word[same]) ++same;
    if (same == word.size()) return true;
  }
  return false;
}

// How many letters must be changed, added, left out or exchanged with the next.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before = last, last = now;
  }
  return last[b.size()];
}

// What DistributedDataParallel has itself; anything else is the wrapped module's.
bool ddp_has(std::string_view name) {
  static const std::set<std::string_view> kNames = {"module",
                                                    "forward",
                                                    "parameters",
                                                    "named_parameters",
                                                    "buffers",
                                                    "named_buffers",
                                                    "modules",
                                                    "named_modules",
                                                    "children",
                                                    "named_children",
                                                    "train",
                                                    "eval",
                                                    "training",
                                                    "zero_grad",
                                                    "to",
                                                    "cuda",
                                                    "npu",
                                                    "cpu",
                                                    "half",
                                                    "float",
                                                    "double",
                                                    "bfloat16",
                                                    "apply",
                                                    "requires_grad_",
                                                    "no_sync",
                                                    "join",
                                                    "register_comm_hook",
                                                    "register_forward_hook",
                                                    "register_forward_pre_hook",
                                                    "register_full_backward_hook",
                                                    "type",
                                                    "share_memory",
                                                    "compile",
                                                    "add_module",
                                                    "register_module",
                                                    "get_parameter",
                                                    "get_submodule",
                                                    "get_buffer",
                                                    "device_ids",
                                                    "device",
                                                    "_set_static_graph"};
  return kNames.count(name) > 0;
}

class Distributor {
 public:
  explicit Distributor(Pass& pass)
      : pass_(pass), ast_(pass.ast), main_(pass.names.file() == pass.settings.main_file), model_(pass.settings.model) {}

  void run() {
    rank_ = pass_.names.scopes()[0].names.count("local_rank") ? "npu_local_rank" : "local_rank";
    for (NodeId id = 0; id < ast_.size(); ++id)
      if (ast_.kind(id) == Kind::kCall) call(id);
    loaders();
    saves();
    if (!main_) return;
    wrap();
    set_up();
    epochs();
  }

 private:
  std::string_view callee(NodeId call) const {
    NodeId function = ast_.child(call, Field::kFunction);
    if (ast_.kind(function) == Kind::kAttribute) return ast_.text(ast_.child(function, Field::kAttribute));
    return ast_.kind(function) == Kind::kIdentifier ? ast_.text(function) : std::string_view();
  }

  // The newline and indentation, or "; ", after which a statement may follow `where`.
  std::string after(NodeId where, const std::string& statement) const {
    const Source& source = ast_.source();
    uint32_t start = ast_[where].start;
    int line = source.line_of(start);
    std::string_view before = source.text(line == 1 ? source.text_start() : source.line_start(line), start);
    if (before.find_first_not_of(" \t\f") != std::string_view::npos) return "; " + statement;
    return std::string(source.newline()) + std::string(before) + statement;
  }

  void before(NodeId where, const std::string& statement, const std::string& message) {
    pass_.edits.insert(ast_[where].start, as_statement_before(ast_, where, statement), message);
  }

  // Explicit cards: every process has the one made current at the start.
  void call(NodeId call) {
    std::string_view name = callee(call);
    std::string path = pass_.path(ast_.child(call, Field::kFunction));
    NodeId first = call_argument(ast_, call, "", 0);
    if (first == kNoNode || has_splat(ast_, call)) return;
    if (name == "cuda" && ast_.kind(ast_.child(call, Field::kFunction)) == Kind::kAttribute) {
      if (is_card(first)) remove_argument(pass_, first, "remove the card's number: each process has its own card");
    } else if (path == "torch.cuda.set_device") {
      std::string rank = main_ ? rank_ : "int(__import__('os').environ.get('LOCAL_RANK', 0))";
      pass_.replace(first, rank);
    } else if (path == "torch.device") {
      NodeId index = call_argument(ast_, call, "index", 1);
      if (index == kNoNode) return;
      NodeId argument = ast_.kind(ast_.parent(index)) == Kind::kKeywordArgument ? ast_.parent(index) : index;
      remove_argument(pass_, argument, "remove the card's number: each process has its own card");
    } else if (name == "to" && is_card(first)) {
      pass_.replace(first, "'npu'");
    }
  }

  bool is_card(NodeId value) const {
    if (ast_.kind(value) == Kind::kInteger) return true;
    std::string_view text = ast_.text(value);
    size_t dot = text.rfind('.');
    if (dot != std::string_view::npos) text = text.substr(dot + 1);
    for (std::string_view word :
         {"gpu", "gpu_id", "gpu_idx", "gpu_index", "device_id", "dev_id", "device_index", "cuda_id"})
      if (text == word) return true;
    return false;
  }

  // --- data -----------------------------------------------------------------------------------------------------------

  struct Loader {
    NodeId call, dataset;
    std::string name;  // of the variable, empty if there is none
  };

  bool is_training(const Loader& loader, bool only) const {
    std::string_view dataset = ast_.text(loader.dataset);
    for (std::string_view word : {"val", "test", "eval", "infer", "predict"})
      if (contains_word(loader.name, word) || (loader.name.empty() && contains_word(dataset, word))) return false;
    if (contains_word(loader.name, "train") || contains_word(dataset, "train")) return true;
    NodeId shuffle = call_argument(ast_, loader.call, "shuffle", 2);
    if (ast_.kind(shuffle) == Kind::kTrue) return true;
    return only;
  }

  void loaders() {
    std::vector<Loader> found;
    for (NodeId id = 0; id < ast_.size(); ++id) {
      if (ast_.kind(id) != Kind::kCall || callee(id) != "DataLoader") continue;
      std::string path = pass_.path(ast_.child(id, Field::kFunction));
      if (!path.empty() && path != "torch.utils.data.DataLoader") continue;
      Loader loader{id, call_argument(ast_, id, "dataset", 0), ""};
      if (loader.dataset == kNoNode) continue;
      NodeId above = ast_.parent(id);
      if (ast_.kind(above) == Kind::kAssignment && ast_[id].field == Field::kRight)
        loader.name = ast_.text(ast_.child(above, Field::kLeft));
      found.push_back(loader);
    }
    for (const Loader& loader : found)
      if (is_training(loader, found.size() == 1)) add_sampler(loader);
  }

  void add_sampler(const Loader& loader) {
    NodeId sampler = call_argument(ast_, loader.call, "sampler", 3);
    bool taken = (sampler != kNoNode && ast_.kind(sampler) != Kind::kNone) ||
                 call_argument(ast_, loader.call, "batch_sampler", 4) != kNoNode || has_splat(ast_, loader.call);
    if (taken) {
      pass_.find(Finding::kNotice, loader.call, "DataLoader", "has a sampler of its own: make each rank read its part",
                 Finding::kLeft);
      return;
    }
    NodeId shuffle = call_argument(ast_, loader.call, "shuffle", 2);
    std::string_view order = shuffle == kNoNode ? "False" : ast_.text(shuffle);
    std::string dataset(ast_.text(loader.dataset));
    std::string made = "torch.utils.data.distributed.DistributedSampler(" + dataset +
                       (order == "True" ? "" : ", shuffle=" + std::string(order)) + ")";
    NodeId statement = ast_.statement(loader.call);
    bool simple = ast_.kind(loader.dataset) == Kind::kIdentifier || ast_.kind(loader.dataset) == Kind::kAttribute;
    bool direct = ast_.kind(statement) == Kind::kExpressionStatement &&
                  loader.name.find_first_of(" .[(,") == std::string::npos && !loader.name.empty();
    if (!simple && !direct) {
      pass_.find(Finding::kNotice, loader.call, "DataLoader", "add a DistributedSampler: its dataset is made in place",
                 Finding::kLeft);
      return;
    }
    std::string torch = pass_.names.lookup("torch", 0) ? "" : "import torch";
    if (direct) {
      std::string name = pass_.names.lookup("train_sampler", 0) ? loader.name + "_sampler" : "train_sampler";
      if (!torch.empty()) before(statement, torch, "add import torch");
      if (!simple) {  // made once, for both
        std::string data = loader.name + "_dataset";
        before(statement, data + " = " + dataset, "name the dataset");
        pass_.replace(loader.dataset, data);
        made.replace(made.find(dataset), dataset.size(), data);
      }
      before(statement, name + " = " + made, "add a DistributedSampler");
      made = name;
    }
    if (shuffle != kNoNode) {
      NodeId keyword = ast_.parent(shuffle);
      if (ast_.kind(keyword) == Kind::kKeywordArgument)
        remove_argument(pass_, keyword, "the sampler shuffles");
      else
        pass_.replace(shuffle, "False");
    }
    if (sampler != kNoNode)
      pass_.replace(sampler, made);
    else
      add_argument(pass_, loader.call, "sampler=" + made, "read through the DistributedSampler");
    if (!loader.name.empty()) train_loaders_.insert(loader.name);
  }

  // --- checkpoints ------------------------------------------------------------------------------------------------------

  void saves() {
    std::set<NodeId> guarded;
    for (NodeId id = 0; id < ast_.size(); ++id) {
      if (ast_.kind(id) != Kind::kCall || pass_.path(ast_.child(id, Field::kFunction)) != "torch.save") continue;
      NodeId statement = ast_.parent(id);
      if (ast_.kind(statement) != Kind::kExpressionStatement || asks_for_rank(id)) continue;
      std::string zero(main_ ? kRankZero : kRankZeroIfAny);
      NodeId function = ast_.ancestor(id, Kind::kFunctionDefinition);
      if (function != kNoNode && contains_word(ast_.text(ast_.child(function, Field::kName)), "save")) {
        // Such a function also copies and renames what it saved: all of it belongs to rank 0.
        if (!guarded.insert(function).second) continue;
        NodeId first = first_statement(ast_.child(function, Field::kBody));
        std::string_view line = ast_.source().line_text(ast_.line(first));
        auto line_start = static_cast<uint32_t>(line.data() - ast_.source().bytes().data());
        if (line.find_first_not_of(" \t") == ast_[first].start - line_start) {
          before(first, "if not (" + zero + "): return", "save from rank 0 only");
          continue;
        }
      }
      bool own_line = as_statement_before(ast_, statement, "").find(';') == std::string::npos;
      pass_.edits.insert(ast_[statement].start,
                         own_line ? "if " + zero + ": " : (main_ ? zero : "(" + zero + ")") + " and ",
                         "save from rank 0 only");
    }
  }

  bool asks_for_rank(NodeId id) const {
    for (NodeId at = ast_.parent(id); at != kNoNode; at = ast_.parent(at))
      if (ast_.kind(at) == Kind::kIfStatement && contains_word(ast_.text(ast_.child(at, Field::kCondition)), "rank"))
        return true;
    return false;
  }

  NodeId first_statement(NodeId block) const {
    std::vector<NodeId> all = ast_.named_children(block);
    if (all.size() > 1 && ast_.kind(all[0]) == Kind::kExpressionStatement &&
        ast_.kind(ast_.named_child(all[0], 0)) == Kind::kString)
      return all[1];
    return all.empty() ? kNoNode : all[0];
  }

  // --- the model ----------------------------------------------------------------------------------------------------------

  bool is_model(NodeId node) const { return node != kNoNode && ast_.text(node) == model_; }

  // Statements directly in a block that make or change the model, up to the first loop that trains with it.
  struct Region {
    NodeId block = kNoNode, last = kNoNode;
    bool moved = false;  // it is put on a device there
  };

  bool makes_model(NodeId statement, bool* moved) const {
    bool found = false;
    for (NodeId id = statement; id <= ast_[statement].last; ++id) {
      if (ast_.kind(id) == Kind::kFunctionDefinition || ast_.kind(id) == Kind::kClassDefinition) {
        id = ast_[id].last;
      } else if (ast_.kind(id) == Kind::kAssignment && is_model(ast_.child(id, Field::kLeft)) &&
                 ast_.kind(ast_.child(id, Field::kRight)) != Kind::kNone) {
        found = true;
        std::string_view value = ast_.text(ast_.child(id, Field::kRight));
        if (value.find(".cuda(") != std::string_view::npos || value.find(".to(") != std::string_view::npos ||
            value.find(".npu(") != std::string_view::npos)
          *moved = true;
      } else if (ast_.kind(id) == Kind::kCall) {
        NodeId function = ast_.child(id, Field::kFunction);
        if (ast_.kind(function) != Kind::kAttribute || !is_model(ast_.child(function, Field::kObject))) continue;
        std::string_view name = callee(id);
        if (name == "cuda" || name == "to" || name == "npu") *moved = found = true;
        if (name == "load_state_dict" || name == "half" || name == "float" || name == "apply") found = true;
      }
    }
    return found;
  }

  Region region() const {
    NodeId first = kNoNode;
    for (NodeId id = 0; id < ast_.size() && first == kNoNode; ++id)
      if (ast_.kind(id) == Kind::kAssignment && is_model(ast_.child(id, Field::kLeft)) &&
          ast_.kind(ast_.child(id, Field::kRight)) == Kind::kCall)
        first = id;
    Region found;
    if (first == kNoNode) return found;
    // Outwards to the body of the function, the main guard or a loop over folds: not into branches.
    for (NodeId at = ast_.statement(first);;) {
      NodeId block = ast_.parent(at), holder = ast_.parent(block);
      Kind kind = ast_.kind(holder);
      bool branch = kind == Kind::kElseClause || kind == Kind::kElifClause || kind == Kind::kTryStatement ||
                    kind == Kind::kExceptClause || kind == Kind::kWithStatement ||
                    (kind == Kind::kIfStatement && holder != guard());
      found.block = block;
      if (!branch) break;
      at = kind == Kind::kElseClause || kind == Kind::kElifClause || kind == Kind::kExceptClause ? ast_.parent(holder)
                                                                                                 : holder;
    }
    for (NodeId statement : ast_.named_children(found.block)) {
      bool loops = ast_.kind(statement) == Kind::kForStatement || ast_.kind(statement) == Kind::kWhileStatement;
      if (loops && found.last != kNoNode) break;
      if (!loops && ast_.kind(statement) != Kind::kFunctionDefinition &&
          ast_.kind(statement) != Kind::kClassDefinition && makes_model(statement, &found.moved))
        found.last = statement;
    }
    return found;
  }

  // Why nothing is wrapped, with the names that were perhaps meant: those spelled nearly so, else those whose
  // parameters or mode the script asks for, as it does of a model.
  std::string no_model() const {
    std::set<std::string> made, used;
    for (NodeId id = 0; id < ast_.size(); ++id) {
      if (ast_.kind(id) == Kind::kAssignment) {
        NodeId left = ast_.child(id, Field::kLeft);
        if (ast_.kind(ast_.child(id, Field::kRight)) == Kind::kCall &&
            (ast_.kind(left) == Kind::kIdentifier || ast_.kind(left) == Kind::kAttribute))
          made.emplace(ast_.text(left));
      } else if (ast_.kind(id) == Kind::kAttribute) {
        std::string_view name = ast_.text(ast_.child(id, Field::kAttribute));
        if (name == "parameters" || name == "named_parameters" || name == "train" || name == "eval")
          used.emplace(ast_.text(ast_.child(id, Field::kObject)));
      }
    }
    std::string near, likely;
    for (const std::string& name : made) {
      if (edit_distance(name, model_) <= std::max<size_t>(1, model_.size() / 3))
        near += (near.empty() ? "" : ", ") + name;
      if (used.count(name)) likely += (likely.empty() ? "" : ", ") + name;
    }
    std::string meant = near.empty() ? likely : near;
    return "no variable " + model_ + " is made in this script, so nothing is wrapped in DistributedDataParallel, and " +
           "the ranks would train apart: " +
           (meant.empty() ? "name the model's variable with -t, or wrap it by hand" : "did you mean -t " + meant + "?");
  }

  void wrap() {
    Region where = region();
    if (where.last == kNoNode) {
      pass_.find(Finding::kNotice, ast_.root(), model_, no_model(), Finding::kFailure);
      return;
    }
    for (NodeId id = 0; id < ast_.size(); ++id) {  // model = DataParallel(model): DDP takes its place
      if (ast_.kind(id) != Kind::kCall || callee(id) != "DataParallel") continue;
      NodeId inner = call_argument(ast_, id, "module", 0);
      if (ast_.kind(ast_.parent(id)) == Kind::kAssignment && is_model(ast_.child(ast_.parent(id), Field::kLeft)) &&
          inner != kNoNode)
        pass_.replace(id, std::string(ast_.text(inner)));
    }
    std::string given = where.moved ? model_ : model_ + ".npu()";
    std::string rank = rank_;
    pass_.edits.insert(ast_[where.last].end,
                       after(where.last, model_ + " = torch.nn.parallel.DistributedDataParallel(" + given +
                                             ", device_ids=[" + rank + "], output_device=" + rank + ")"),
                       "wrap " + model_ + " in DistributedDataParallel");
    module_scope_ = where.block == kNoNode || ast_.ancestor(where.last, Kind::kFunctionDefinition) == kNoNode;
    unwrap(where);
  }

  // Attributes DDP does not hand on, and state dicts without its prefix.
  void unwrap(const Region& where) {
    NodeId function = ast_.ancestor(where.last, Kind::kFunctionDefinition);
    for (NodeId id = 0; id < ast_.size(); ++id) {
      if (ast_.kind(id) != Kind::kAttribute || !is_model(ast_.child(id, Field::kObject))) continue;
      if (ddp_has(ast_.text(ast_.child(id, Field::kAttribute)))) continue;
      NodeId object = ast_.child(id, Field::kObject), around = ast_.ancestor(id, Kind::kFunctionDefinition);
      if (around == function || (function != kNoNode && ast_.is_inside(id, function))) {
        if (ast_[id].start < ast_[where.last].end) continue;  // still the bare model
        pass_.edits.insert(ast_[object].end, ".module", "reach through DistributedDataParallel");
      } else if (around != kNoNode) {
        pass_.edits.replace(ast_[object].start, ast_[object].end, "getattr(" + model_ + ", 'module', " + model_ + ")",
                            "reach through DistributedDataParallel");
      }
    }
  }

  // --- start and end --------------------------------------------------------------------------------------------------------

  NodeId guard() const {
    for (NodeId statement : ast_.named_children(ast_.root())) {
      if (ast_.kind(statement) != Kind::kIfStatement) continue;
      std::string_view condition = ast_.text(ast_.child(statement, Field::kCondition));
      if (condition.find("__name__") != std::string_view::npos && condition.find("__main__") != std::string_view::npos)
        return statement;
    }
    return kNoNode;
  }

  NodeId guard_block() const {
    for (NodeId c : ast_.named_children(guard()))
      if (ast_.kind(c) == Kind::kBlock) return c;
    return kNoNode;
  }

  void set_up() {
    NodeId block = guard_block(), first = kNoNode, last = kNoNode;
    bool at_module = module_scope_ && !(block != kNoNode && ast_.is_inside(region().last, guard()));
    if (block != kNoNode && !at_module) {
      first = ast_.named_child(block, 0);
    } else {
      for (NodeId statement : ast_.named_children(ast_.root())) {
        Kind kind = ast_.kind(statement);
        bool text = kind == Kind::kExpressionStatement && ast_.kind(ast_.named_child(statement, 0)) == Kind::kString;
        bool passive = text || kind == Kind::kImportStatement || kind == Kind::kImportFromStatement ||
                       kind == Kind::kFutureImport || kind == Kind::kFunctionDefinition ||
                       kind == Kind::kClassDefinition || kind == Kind::kDecoratedDefinition ||
                       kind == Kind::kTryStatement;
        if (first == kNoNode && !passive) first = statement;
      }
      block = ast_.root();
    }
    if (first == kNoNode) {
      pass_.find(Finding::kNotice, ast_.root(), "distributed",
                 "the entry script runs nothing, so no process group is made: name the script that is started with -m",
                 Finding::kFailure);
      return;
    }
    auto names = pass_.names.scopes()[0].names;
    if (!names.count("os")) before(first, "import os", "add import os");
    if (!names.count("torch")) before(first, "import torch", "add import torch");
    if (!pass_.imports.visible(first)) before(first, "import torch_npu", "add import torch_npu");
    before(first, rank_ + " = int(os.environ.get(\"LOCAL_RANK\", 0))", "read the card of this process");
    before(first, "torch_npu.npu.set_device(" + rank_ + ")", "make the card current");
    before(first, "torch.distributed.init_process_group(\"hccl\")", "join the process group");
    std::vector<NodeId> all = ast_.named_children(block);
    last = all.back();
    pass_.edits.insert(ast_[last].end, after(last, "torch.distributed.destroy_process_group()"),
                       "leave the process group");
  }

  // --- epochs ---------------------------------------------------------------------------------------------------------------

  void epochs() {
    for (NodeId loop = 0; loop < ast_.size(); ++loop) {
      if (ast_.kind(loop) != Kind::kForStatement) continue;
      NodeId variable = ast_.child(loop, Field::kLeft), body = ast_.child(loop, Field::kBody);
      if (ast_.kind(variable) != Kind::kIdentifier || !contains_word(ast_.text(variable), "epoch")) continue;
      if (ast_.text(body).find("set_epoch(") != std::string_view::npos) continue;
      std::string loader = loader_seen_from(loop, body);
      NodeId first = ast_.named_child(body, 0);
      if (loader.empty() || first == kNoNode) {
        pass_.find(Finding::kNotice, loop, "set_epoch", "call set_epoch of the training loader's sampler in this loop",
                   Finding::kLeft);
        continue;
      }
      std::string call = loader + ".sampler.set_epoch(" + std::string(ast_.text(variable)) + ")";
      if (!train_loaders_.count(loader)) call = "if hasattr(" + loader + ".sampler, 'set_epoch'): " + call;
      before(first, call, "another order every epoch");
    }
  }

  // A training loader by a name this loop can see: one made here, or one that looks like it in the loop.
  std::string loader_seen_from(NodeId loop, NodeId body) const {
    for (const std::string& name : train_loaders_)
      if (name.find('.') != std::string::npos || pass_.names.lookup(name, pass_.names.scope_of(loop))) return name;
    for (NodeId id = body; id <= ast_[body].last; ++id) {
      if (ast_.kind(id) != Kind::kIdentifier || ast_[id].field == Field::kAttribute) continue;
      std::string_view text = ast_.text(id);
      bool loader = contains_word(text, "loader") || contains_word(text, "dl");
      if (loader && contains_word(text, "train") && pass_.names.lookup(id) && !is_callee(ast_, id))
        return std::string(text);
    }
    return "";
  }

  Pass& pass_;
  const Ast& ast_;
  bool main_;
  std::string model_, rank_;
  bool module_scope_ = false;
  std::set<std::string> train_loaders_;
};

}  // namespace

void distribute(Pass& pass) {
  if (!pass.settings.already_distributed) Distributor(pass).run();
}

}  // namespace migrate
