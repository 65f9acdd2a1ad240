// What the rewriting passes over one file share: the tree, the names, the rules, and what they produce.
// Passes: imports, names, strings, calls, advice, then -s, -m and distributed. Each is one file, rewrite_*.cpp; the order
// is in rewriter.cpp. A pass only adds edits and findings; nothing is changed in place.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "migrate/src/ast.h"
#include "migrate/src/edits.h"
#include "migrate/src/import_plan.h"
#include "migrate/src/names.h"
#include "migrate/src/rules.h"

namespace migrate {

inline constexpr std::string_view kCuda = "torch.cuda";

struct Settings {
  std::string version = "2.13.0";
  const Rules* rules = nullptr;
  bool replace_unsupported = false;  // -s
  bool modelarts = false;            // -m
  bool analyse = false;              // lists what is supported with limits, and reads every file
  bool distributed = false;
  bool already_distributed = false;  // some file of the tree makes a process group itself
  std::string main_file;             // relative to the input; of distributed
  std::string model = "model";       // -t
};

struct Finding {
  enum Category { kUnsupported, kUnknown, kLimited, kCudaOp, kPerformance, kPrecision, kThirdParty, kNotice };
  // Who hears of it: the lists and the log; the summary, too, as a step left to the user; or it is a failure, since
  // the result would run and do something else than was asked for.
  enum Weight { kListed, kLeft, kFailure };
  Category category = kNotice;
  int line = 0, end_line = 0;
  std::string name, tips;
  Weight weight = kListed;
};

struct Pass {
  const Ast& ast;
  const Names& names;
  const Settings& settings;
  const Rules& rules;
  Edits edits;
  std::vector<Finding> findings;
  ImportPlan imports;
  std::vector<std::string> used_functions;  // of ascend_function, with -s

  Pass(const Ast& a, const Names& n, const Settings& s) : ast(a), names(n), settings(s), rules(*s.rules), imports(n) {}

  void find(Finding::Category category, NodeId node, std::string name, std::string tips,
            Finding::Weight weight = Finding::kListed) {
    findings.push_back({category, ast.line(node), ast.end_line(node), std::move(name), std::move(tips), weight});
  }
  std::string path(NodeId node) const { return names.path(node); }
  void replace(NodeId node, std::string text) {
    std::string message = "change " + std::string(ast.text(node)) + " to " + text;
    edits.replace(ast[node].start, ast[node].end, std::move(text), std::move(message));
  }
};

void rewrite_imports(Pass& pass);
void rewrite_names(Pass& pass);
void rewrite_strings(Pass& pass);
void rewrite_calls(Pass& pass);
void give_advice(Pass& pass);
void replace_unsupported(Pass& pass);
void map_modelarts_paths(Pass& pass);
void distribute(Pass& pass);

// Syntax questions several passes ask.
bool is_callee(const Ast& ast, NodeId node);                                                // directly: node(...)
bool is_called(const Ast& ast, NodeId node);                                                // also (a if c else b)(...)
NodeId call_argument(const Ast& ast, NodeId call, std::string_view keyword, int position);  // value, or kNoNode
bool has_splat(const Ast& ast, NodeId call);
bool has_comment(const Ast& ast, NodeId node);
bool looks_like_options(std::string_view name);  // args, cfg, opt ...: holders of settings, not of tensors
// Removes an argument with one comma and the blanks that belong to it.
void remove_argument(Pass& pass, NodeId argument, const std::string& message);
// Inserts an argument at the end of the list.
void add_argument(Pass& pass, NodeId call, const std::string& text, const std::string& message);

}  // namespace migrate
