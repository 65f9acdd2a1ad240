// The summary for people and --json for programs.
#include <cstdio>

#include "migrate/src/json.h"
#include "migrate/src/output_tree.h"

namespace migrate {
namespace {

struct Category {
  Finding::Category category;
  const char* key;
  const char* title;
};
constexpr Category kCategories[] = {
    {Finding::kUnsupported, "unsupported", "unsupported APIs"},
    {Finding::kUnknown, "unknown", "APIs in doubt"},
    {Finding::kLimited, "limited", "APIs with limits"},
    {Finding::kCudaOp, "cuda_operators", "CUDA operators"},
    {Finding::kThirdParty, "third_party", "third-party packages"},
    {Finding::kPerformance, "performance", "performance advice"},
    {Finding::kPrecision, "precision", "precision advice"},
    {Finding::kNotice, "notices", "notices"},
};

std::string member(const char* key, const std::string& value, bool last = false) {
  return "  " + json_quote(key) + ": " + value + (last ? "\n" : ",\n");
}

}  // namespace

std::vector<std::string> failures(const RunResult& run) {
  std::vector<std::string> found;
  for (const FileResult& file : run.files)
    for (const Finding& finding : file.findings)
      if (finding.weight == Finding::kFailure) found.push_back("distributed: " + file.path + ": " + finding.tips);
  return found;
}

std::string json_report(const Options& options, const RunResult& run, int exit_code) {
  std::string out = "{\n";
  out += member("tool_version", json_quote(ANYCEND_VERSION));
  out += member("input", json_quote(run.root));
  out += member("output", run.output.empty() ? "null" : json_quote(run.output));
  out += member("torch_version", json_quote(run.settings.version));
  out += member("exit_code", std::to_string(exit_code));
  out += member("files", std::to_string(run.files.size()));
  out += member("lines", std::to_string(run.lines));
  char seconds[32];
  snprintf(seconds, sizeof seconds, "%.3f", run.seconds);
  out += member("seconds", seconds);
  std::string changed, skipped, changes;
  for (const FileResult& file : run.files) {
    std::string path = json_quote(file.path);
    if (file.changed) changed += (changed.empty() ? "" : ", ") + path;
    if (!file.skipped.empty())
      skipped += (skipped.empty() ? "\n    {" : ",\n    {") + std::string("\"file\": ") + path +
                 ", \"line\": " + std::to_string(file.skipped_line) + ", \"reason\": " + json_quote(file.skipped) + "}";
    for (const Change& change : file.changes)
      changes += (changes.empty() ? "\n    {" : ",\n    {") + std::string("\"file\": ") + path +
                 ", \"line\": " + std::to_string(change.line) + ", \"end_line\": " + std::to_string(change.end_line) +
                 ", \"operation\": " + json_quote(change.operation) + ", \"message\": " + json_quote(change.message) +
                 "}";
  }
  out += member("changed", "[" + changed + "]");
  out += member("changes", "[" + changes + "]");
  out += member("skipped", "[" + skipped + "]");
  for (const Category& c : kCategories) {
    std::string rows;
    for (const FileResult& file : run.files)
      for (const Finding& finding : file.findings)
        if (finding.category == c.category)
          rows += (rows.empty() ? "\n    {" : ",\n    {") + std::string("\"file\": ") + json_quote(file.path) +
                  ", \"line\": " + std::to_string(finding.line) +
                  ", \"end_line\": " + std::to_string(finding.end_line) + ", \"name\": " + json_quote(finding.name) +
                  ", \"tips\": " + json_quote(finding.tips) + "}";
    out += member(c.key, "[" + rows + "]");
  }
  std::string problems;
  for (const std::string& problem : run.problems) problems += (problems.empty() ? "" : ", ") + json_quote(problem);
  out += member("problems", "[" + problems + "]", true);
  return out + "}\n";
  (void)options;
}

std::string summary(const Options& options, const RunResult& run) {
  char line[256];
  std::string out;
  snprintf(line, sizeof line, "%zu files, %ld lines in %.2f s: %d %s, %d %s\n", run.files.size(), run.lines,
           run.seconds, run.changed, options.migrates() ? "changed" : "would change", run.skipped,
           options.migrates() ? "copied as they are" : "would not be migrated");
  out += line;
  for (const Category& c : kCategories)
    if (int count = run.count(c.category)) {
      snprintf(line, sizeof line, "  %-22s %d\n", c.title, count);
      out += line;
    }
  for (const FileResult& file : run.files)
    if (!file.skipped.empty())
      out += "not migrated: " + file.path + ":" + std::to_string(std::max(1, file.skipped_line)) + ": " + file.skipped +
             "\n";
  for (const FileResult& file : run.files)
    for (const Finding& finding : file.findings)
      if (finding.weight == Finding::kLeft)
        out += "left to you: " + file.path + ":" + std::to_string(finding.line) + ": " + finding.name + ": " +
               finding.tips + "\n";
  for (const std::string& problem : run.problems) out += "note: " + problem + "\n";
  if (!run.output.empty()) out += "result: " + run.output + "\n";
  return out;
}

}  // namespace migrate
