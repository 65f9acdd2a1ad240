// See rewriter.h.
#include "migrate/src/rewriter.h"

#include <algorithm>
#include <cstring>

#include "migrate/src/project.h"

namespace migrate {
namespace {

bool has(std::string_view text, std::string_view word) {
  return memmem(text.data(), text.size(), word.data(), word.size()) != nullptr;
}

constexpr int kAutoload = 2005;  // from this version on PyTorch loads the plugin by itself

// An entry script of older PyTorch must import the plugin even if it names no device.
bool is_entry_for_old_torch(std::string_view text, const Settings& settings) {
  return version_number(settings.version) < kAutoload && has(text, "__main__") && has(text, "torch");
}

}  // namespace

bool has_cuda_word(std::string_view text, const Settings& settings, const std::string& path) {
  for (std::string_view word : {"cuda", "nccl", "NCCL", "CUDA", "amp_C", "profiler", "fork_rng", "DataParallel",
                                "channels_last", "'cu'", "\"cu\""})
    if (has(text, word)) return true;
  if (settings.analyse || is_entry_for_old_torch(text, settings)) return true;
  if (settings.distributed && (path == settings.main_file || has(text, "DataLoader") || has(text, "torch.save")))
    return true;
  if (settings.modelarts && has(text, "open(")) return true;
  if (settings.replace_unsupported && has(text, "torch")) return true;
  return version_number(settings.version) < 2001 && has(text, "torch");
}

void finish(const Source& source, const Edits& made, FileResult* result) {
  result->edits = made.sorted();
  for (const Edit& edit : result->edits) {
    uint32_t last = edit.end > edit.start ? edit.end - 1 : edit.start;
    result->changes.push_back({source.line_of(edit.start), source.line_of(last), edit.operation, edit.message});
  }
  result->migrated = edited(result->original, result->edits);
  result->changed = result->migrated != result->original;
}

FileResult rewrite_python(std::string bytes, const std::string& path, const Settings& settings, Project* project) {
  FileResult result;
  result.path = path;
  result.original = std::move(bytes);
  bool utf16 = result.original.starts_with("\xFF\xFE") || result.original.starts_with("\xFE\xFF");
  if (!utf16 && !has_cuda_word(result.original, settings, path)) {
    result.lines = static_cast<int>(std::count(result.original.begin(), result.original.end(), '\n'));
    result.migrated = result.original;
    return result;
  }
  Source source(result.original);
  result.lines = source.line_count() - 1;
  result.migrated = result.original;
  if (!source.refusal().empty()) {
    result.skipped = source.refusal(), result.skipped_line = source.refusal_line();
    return result;
  }
  Ast ast(source);
  if (!ast.error().empty()) {
    result.skipped = ast.error(), result.skipped_line = ast.error_line();
    return result;
  }
  result.parsed = true;
  Names names(ast, project, path);
  Pass pass(ast, names, settings);
  rewrite_imports(pass);
  rewrite_names(pass);
  rewrite_strings(pass);
  rewrite_calls(pass);
  if (settings.replace_unsupported) replace_unsupported(pass);
  if (settings.distributed) distribute(pass);
  give_advice(pass);
  pass.imports.carry_out(&pass.edits, is_entry_for_old_torch(result.original, settings));

  if (settings.modelarts) {
    map_modelarts_paths(pass);
    pass.imports.carry_out_from(&pass.edits);
  }

  finish(source, pass.edits, &result);
  std::stable_sort(pass.findings.begin(), pass.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  result.findings = std::move(pass.findings);
  result.used_functions = std::move(pass.used_functions);
  return result;
}

}  // namespace migrate
