// Calls whose arguments must change, not only their name: profile(experimental_config=), fork_rng(), and integer devices
// for PyTorch before 2.1, which took an integer for a CUDA device.
#include <algorithm>

#include "migrate/src/pass.h"

namespace migrate {
namespace {

constexpr int kIntegersAreNpu = 2001;

constexpr std::string_view kFactories[] = {
    "zeros",         "ones",          "empty",        "full",         "rand",      "randn",      "randint",
    "randperm",      "arange",        "linspace",     "logspace",     "eye",       "tensor",     "as_tensor",
    "zeros_like",    "ones_like",     "empty_like",   "full_like",    "rand_like", "randn_like", "randint_like",
    "scalar_tensor", "empty_strided", "tril_indices", "triu_indices", "range",     "new_zeros",  "new_ones",
    "new_empty",     "new_full",      "new_tensor"};

bool names_a_card(std::string_view text) {
  size_t dot = text.rfind('.');
  if (dot != std::string_view::npos) text = text.substr(dot + 1);
  for (std::string_view word : {"rank", "local_rank", "gpu", "gpu_id", "gpu_idx", "gpu_index", "device_id", "dev_id",
                                "device_idx", "device_index", "cuda_id", "npu_id"})
    if (text == word) return true;
  return false;
}

class CallRewriter {
 public:
  explicit CallRewriter(Pass& pass)
      : pass_(pass), ast_(pass.ast), wrap_(version_number(pass.settings.version) < kIntegersAreNpu) {}

  void run() {
    for (NodeId id = 0; id < ast_.size(); ++id) {
      if (ast_.kind(id) != Kind::kCall) continue;
      NodeId function = ast_.child(id, Field::kFunction);
      Kind kind = ast_.kind(function);
      if (kind != Kind::kAttribute && kind != Kind::kIdentifier) continue;
      std::string_view name = ast_.text(kind == Kind::kAttribute ? ast_.child(function, Field::kAttribute) : function);
      if (name == "profile") profile(id, function);
      if (name == "fork_rng") fork_rng(id, function);
      if (wrap_) integer_device(id, function, name);
    }
  }

 private:
  void profile(NodeId call, NodeId function) {
    if (pass_.path(function) != "torch.profiler.profile") return;
    NodeId value = call_argument(ast_, call, "experimental_config", -1);
    if (value == kNoNode || pass_.path(value).starts_with("torch_npu.")) return;
    remove_argument(pass_, ast_.parent(value), "remove experimental_config: torch_npu.profiler has options of its own");
    pass_.find(Finding::kNotice, value, "experimental_config",
               "removed; torch_npu.profiler._ExperimentalConfig has the NPU's options");
  }

  // Its device type is 'cuda' by default.
  void fork_rng(NodeId call, NodeId function) {
    if (pass_.path(function) != "torch.random.fork_rng" || has_splat(ast_, call)) return;
    if (call_argument(ast_, call, "device_type", 4) == kNoNode)
      add_argument(pass_, call, "device_type='npu'", "add device_type='npu' to torch.random.fork_rng");
  }

  void integer_device(NodeId call, NodeId function, std::string_view name) {
    NodeId value = kNoNode;
    if (name == "to" || name == "to_empty") {
      if (ast_.kind(function) != Kind::kAttribute) return;
      value = call_argument(ast_, call, "device", 0);
    } else if (std::find(std::begin(kFactories), std::end(kFactories), name) != std::end(kFactories)) {
      value = call_argument(ast_, call, "device", -1);
    }
    if (value == kNoNode) return;
    std::string_view text = ast_.text(value);
    if (ast_.kind(value) == Kind::kInteger) return pass_.replace(value, "'npu:" + std::string(text) + "'");
    bool simple = ast_.kind(value) == Kind::kIdentifier || ast_.kind(value) == Kind::kAttribute;
    if (simple && names_a_card(text) && text.find_first_of("()[]\n") == std::string_view::npos)
      pass_.replace(value, "f'npu:{" + std::string(text) + "}' if isinstance(" + std::string(text) + ", int) else " +
                               std::string(text));
  }

  Pass& pass_;
  const Ast& ast_;
  bool wrap_;
};

}  // namespace

void rewrite_calls(Pass& pass) { CallRewriter(pass).run(); }

}  // namespace migrate
