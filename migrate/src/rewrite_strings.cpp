// Strings: by what they say (device_text.h) and what they are for (role.h). Edits touch only the letters that change,
// wherever in the pieces of an f-string or a concatenation they are.
#include <algorithm>

#include "migrate/src/device_text.h"
#include "migrate/src/pass.h"
#include "migrate/src/role.h"
#include "migrate/src/template.h"

namespace migrate {
namespace {

class StringRewriter {
 public:
  explicit StringRewriter(Pass& pass) : pass_(pass), ast_(pass.ast) {}

  void run() {
    for (NodeId id = 0; id < ast_.size(); ++id) {
      Kind kind = ast_.kind(id);
      if (kind != Kind::kString && kind != Kind::kConcatenatedString) continue;
      if (template_root(ast_, id) != id) continue;
      one(id);
      if (kind == Kind::kConcatenatedString) inner_strings(id);
    }
    if (key_ != kNoNode && listed_)
      pass_.find(
          Finding::kNotice, key_, "'cuda'",
          "stays, as the key of a dictionary; 'cuda' in lists, tuples and sets is 'npu' now: change the key too if "
          "it is looked up by one of them");
  }

 private:
  // Strings inside the expressions of a concatenated f-string are met by the loop; the pieces themselves are not roots.
  void inner_strings(NodeId) {}

  void one(NodeId id) {
    Template value = read_template(ast_, id);
    if (value.bytes || value.text.empty()) return;
    if (value.plain) {
      std::string advice = environment_advice(value.text);
      if (!advice.empty()) pass_.find(Finding::kNotice, id, value.text, advice);
      if (const std::string* replaced = pass_.rules.user_string(value.text))
        return apply_edits(value, {{0, value.text.size(), *replaced}});
    }
    // Cheap test first: most strings have nothing to do with devices.
    if (value.text.find("cuda") == std::string::npos && value.text.find("ccl") == std::string::npos &&
        value.text.find("NCCL") == std::string::npos)
      return;
    bool device = is_device_text(value.text) && !glued_hole(value), backend = is_backend_text(value.text);
    bool name = is_cuda_name(value.text), member = value.text == "is_cuda";
    Role role;
    if (value.leads)
      role = role_of(pass_, value.whole);
    else
      return;
    if (role.kind == Role::kCode && value.text.find('\\') == std::string::npos)
      return apply_edits(value, code_edits(value.text, pass_.rules));
    if (role.pattern && !device) return pattern(value);
    if (!device && !backend && !name && !member) return;
    switch (role.kind) {
      case Role::kProse:
      case Role::kPath:
        return;
      case Role::kKey:
        // 'cuda' may be any key; 'cuda:0' is a device.
        if (device && has_device_index(value.text)) return apply_edits(value, device_edits(value.text));
        if (device && key_ == kNoNode) key_ = id;
        return;
      case Role::kAttribute:
        return attribute(value, role);
      case Role::kModule:
        if (name) module_name(value, role);
        return;
      default:
        break;
    }
    if (name) return apply_edits(value, name_edits(value.text, pass_.rules));
    if (backend) return apply_edits(value, backend_edits(value.text));
    if (device) {
      if (pass_.settings.distributed && !pass_.settings.already_distributed && has_device_index(value.text) &&
          !role.compared)
        return drop_index(value);
      Kind above = ast_.kind(ast_.parent(value.whole));
      listed_ = listed_ || above == Kind::kList || above == Kind::kTuple || above == Kind::kSet;
      apply_edits(value, device_edits(value.text));
    }
  }

  // f'cuda{i}' and 'cuda' + str(i) make cuda0, which is no device; 'cuda' + tail may be one.
  bool glued_hole(const Template& value) const {
    if (value.text.size() != 5 || value.text[4] != kHole) return false;
    NodeId above = ast_.parent(value.literal);
    if (ast_.kind(above) != Kind::kBinaryOperator) return true;
    NodeId right = ast_.child(above, Field::kRight);
    return ast_.kind(right) == Kind::kCall || ast_.kind(right) == Kind::kInteger;
  }

  // Has the object's class, which is made in this file, an attribute of this name?
  bool is_own(NodeId object, std::string_view name) const {
    for (int turn = 0; turn < 3; ++turn) {  // an instance's name, the call that made it, the class
      if (ast_.kind(object) == Kind::kCall) object = ast_.child(object, Field::kFunction);
      if (ast_.kind(object) != Kind::kIdentifier) return false;
      const std::vector<Binding>* bindings = pass_.names.lookup(object);
      if (!bindings || bindings->size() != 1) return false;
      const Binding& binding = (*bindings)[0];
      if (ast_.kind(binding.node) == Kind::kClassDefinition) return has_attribute(binding.node, name);
      if (ast_.kind(binding.value) != Kind::kCall) return false;
      object = binding.value;
    }
    return false;
  }

  // A field of the class, or self.name = ... in a method.
  bool has_attribute(NodeId definition, std::string_view name) const {
    for (NodeId id = definition; id <= ast_[definition].last; ++id) {
      if (ast_.kind(id) != Kind::kAssignment) continue;
      NodeId left = ast_.child(id, Field::kLeft);
      bool field = ast_.kind(left) == Kind::kIdentifier && ast_.ancestor(id, Kind::kFunctionDefinition) < definition;
      if ((field && ast_.text(left) == name) || ast_.text(left) == "self." + std::string(name)) return true;
    }
    return false;
  }

  // getattr(x, 'cuda')
  void attribute(const Template& value, const Role& role) {
    if (value.text != "cuda" && value.text != "is_cuda" && !(is_cuda_name(value.text))) return;
    NodeId object = call_argument(ast_, role.call, "", 0);
    std::string path = pass_.path(object);
    if (pass_.rules.foreign(path) || looks_like_options(ast_.text(object)) || ast_.text(object) == "self") return;
    if (path == "torch.backends" || path == "torch.version") return;
    if (is_own(object, value.text)) return;
    if (value.text == "is_cuda") return apply_edits(value, {{0, 7, "is_npu"}});
    apply_edits(value, {{0, 4, "npu"}});
  }

  // import_module('torch.cuda.amp'): parts of torch.npu are modules of torch_npu.npu. Others (mock.patch) look names up.
  void module_name(const Template& value, const Role& role) {
    std::vector<TextEdit> edits = name_edits(value.text, pass_.rules);
    std::string_view function = ast_.text(ast_.child(role.call, Field::kFunction));
    if (!edits.empty() && value.text.size() > 11 && !function.ends_with("patch")) edits = {{0, 10, "torch_npu.npu"}};
    apply_edits(value, edits);
  }

  // A regular expression that begins with cuda as a whole word.
  void pattern(const Template& value) {
    size_t at = value.text.starts_with('^') ? 1 : 0;
    std::string_view text = value.text;
    if (text.substr(at, 4) != "cuda" || at + 4 >= text.size()) return;
    if (text[at + 4] == ':' || text[at + 4] == '$' || text[at + 4] == '(' || text.substr(at + 4, 2) == "\\b")
      apply_edits(value, {{at, 4, "npu"}});
  }

  // Distributed: every process has one card, made current at the start; an index would put all of them on the same.
  void drop_index(const Template& value) {
    std::string quote = "'";
    std::string_view written = ast_.text(value.literal);
    size_t at = written.find_first_of("'\"");
    if (at != std::string_view::npos) quote = written[at];
    pass_.replace(value.whole, quote + "npu" + quote);
  }

  void apply_edits(const Template& value, const std::vector<TextEdit>& edits) {
    for (const TextEdit& edit : edits) {
      std::string message = "change " + printable(value.text) + " to " + printable(apply_text_edits(value.text, edits));
      uint32_t start = value.where[edit.at];
      size_t run = 1;  // letters that lie side by side in the source
      while (run < edit.length && value.where[edit.at + run] == start + run) ++run;
      if (run == edit.length) {
        pass_.edits.replace(start, start + static_cast<uint32_t>(run), edit.text, message);
        continue;
      }
      // Spread over several pieces. If they are nothing but this word, one literal takes their place.
      if (edit.length == value.text.size() && value.whole != kNoNode &&
          ast_.kind(value.literal) == Kind::kConcatenatedString && !has_comment(ast_, value.literal)) {
        NodeId first = ast_.named_child(value.literal, 0);
        std::string_view opening = ast_.text(ast_[first].first_child);
        NodeId last = ast_[first].first_child;
        while (ast_[last].next != kNoNode) last = ast_[last].next;
        pass_.edits.replace(ast_[value.literal].start, ast_[value.literal].end,
                            std::string(opening) + edit.text + std::string(ast_.text(last)), message);
        continue;
      }
      pass_.edits.replace(start, start + static_cast<uint32_t>(run), edit.text, message);
      for (size_t i = run; i < edit.length; ++i)
        pass_.edits.remove(value.where[edit.at + i], value.where[edit.at + i] + 1, message);
    }
  }

  static std::string printable(std::string_view text) {
    std::string out;
    for (char c : text) out += c == kHole ? std::string("{}") : std::string(1, c);
    return "'" + out + "'";
  }

  Pass& pass_;
  const Ast& ast_;
  NodeId key_ = kNoNode;  // the first 'cuda' that stays, as the key of a dictionary
  bool listed_ = false;   // has a 'cuda' in a list, tuple or set been changed?
};

}  // namespace

void rewrite_strings(Pass& pass) { StringRewriter(pass).run(); }

}  // namespace migrate
