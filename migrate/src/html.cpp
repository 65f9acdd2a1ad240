// report.html: one file without anything from outside. Summary, files with side-by-side hunks, findings with remedies, and
// a filter. It stands for the documents' graphical way.
#include <algorithm>
#include <cstdio>

#include "migrate/src/diff.h"
#include "migrate/src/embedded.h"
#include "migrate/src/output_tree.h"
#include "migrate/src/source.h"

namespace migrate {
namespace {

std::string escape(std::string_view text) {
  std::string out;
  for (char c : to_utf8(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\t') out += c;
    }
  }
  return out;
}

std::string card(const char* title, long value, const char* target) {
  return "<a class=card href=\"#" + std::string(target) + "\"><b>" + std::to_string(value) + "</b>" + title + "</a>";
}

// One row: the line before and after. Empty sides are left blank.
std::string row(const char* kind, int old_line, const std::string* before, int new_line, const std::string* after) {
  auto cell = [](int number, const std::string* text, const char* side) {
    if (!text) return std::string("<td class=n></td><td class=\"blank\"></td>");
    return "<td class=n>" + std::to_string(number) + "</td><td class=\"" + side + "\">" + escape(*text) + "</td>";
  };
  return std::string("<tr class=") + kind + ">" + cell(old_line, before, "old") + cell(new_line, after, "new") +
         "</tr>";
}

std::string side_by_side(const FileResult& file) {
  std::string out = "<table class=diff>";
  bool first = true;
  for (const Hunk& hunk : hunks(file, 3)) {
    if (!first) out += "<tr class=gap><td colspan=4></td></tr>";
    first = false;
    int old_line = hunk.old_line - static_cast<int>(hunk.lead.size()),
        new_line = hunk.new_line - static_cast<int>(hunk.lead.size());
    for (const std::string& line : hunk.lead) out += row("same", old_line++, &line, new_line++, &line);
    size_t rows = std::max(hunk.before.size(), hunk.after.size());
    // Insertions come before the line they stand in front of: align the ends.
    size_t skip_old = rows - hunk.before.size(), skip_new = rows - hunk.after.size();
    for (size_t i = 0; i < rows; ++i) {
      const std::string* before = i >= skip_old ? &hunk.before[i - skip_old] : nullptr;
      const std::string* after = i >= skip_new ? &hunk.after[i - skip_new] : nullptr;
      out += row("edit", before ? old_line++ : 0, before, after ? new_line++ : 0, after);
    }
    for (const std::string& line : hunk.trail) out += row("same", old_line++, &line, new_line++, &line);
  }
  return out + "</table>";
}

std::string findings(const RunResult& run, Finding::Category category, const char* id, const char* title) {
  int count = run.count(category);
  if (!count) return "";
  std::string out = "<section id=" + std::string(id) + "><h2>" + title + " <span>" + std::to_string(count) +
                    "</span></h2><table class=list><tr><th>File<th>Line<th>Name<th>Remedy</tr>";
  for (const FileResult& file : run.files)
    for (const Finding& finding : file.findings)
      if (finding.category == category)
        out += "<tr class=item><td>" + escape(file.path) + "<td>" + std::to_string(finding.line) + "<td><code>" +
               escape(finding.name) + "</code><td>" + escape(finding.tips) + "</tr>";
  return out + "</table></section>";
}

void fill(std::string* page, std::string_view mark, const std::string& text) {
  size_t at = page->find(mark);
  if (at != std::string::npos) page->replace(at, mark.size(), text);
}

}  // namespace

std::string html_report(const Options& options, const RunResult& run) {
  std::string page(embedded("templates/report.html"));
  char facts[256];
  snprintf(facts, sizeof facts, "%zu files, %ld lines, %.2f s, PyTorch %s", run.files.size(), run.lines, run.seconds,
           escape(run.settings.version).c_str());
  std::string cards = card(options.migrates() ? "files changed" : "files to change", run.changed, "files") +
                      card("unsupported APIs", run.count(Finding::kUnsupported), "unsupported") +
                      card("APIs in doubt", run.count(Finding::kUnknown), "unknown") +
                      card("CUDA operators", run.count(Finding::kCudaOp), "cudaop") +
                      card("not migrated", run.skipped, "skipped");
  std::string files;
  for (const FileResult& file : run.files)
    if (file.changed)
      files += "<details class=item><summary>" + escape(file.path) + " <span>" + std::to_string(file.changes.size()) +
               (file.changes.size() == 1 ? " change" : " changes") + "</span></summary>" + side_by_side(file) +
               "</details>";
  if (files.empty()) files = "<p>No file changes.</p>";
  std::string lists = findings(run, Finding::kUnsupported, "unsupported", "Unsupported APIs") +
                      findings(run, Finding::kUnknown, "unknown", "APIs in doubt") +
                      findings(run, Finding::kLimited, "limited", "APIs with limits") +
                      findings(run, Finding::kCudaOp, "cudaop", "CUDA operators") +
                      findings(run, Finding::kThirdParty, "thirdparty", "Third-party packages") +
                      findings(run, Finding::kNotice, "notices", "To be looked at") +
                      findings(run, Finding::kPerformance, "performance", "Performance advice") +
                      findings(run, Finding::kPrecision, "precision", "Precision advice");
  if (run.skipped) {
    lists += "<section id=skipped><h2>Not migrated <span>" + std::to_string(run.skipped) +
             "</span></h2><table class=list><tr><th>File<th>Line<th>Reason</tr>";
    for (const FileResult& file : run.files)
      if (!file.skipped.empty())
        lists += "<tr class=item><td>" + escape(file.path) + "<td>" + std::to_string(file.skipped_line) + "<td>" +
                 escape(file.skipped) + "</tr>";
    lists += "</table></section>";
  }
  // The marks are filled from the last to the first, so that no text of a file is taken for one.
  fill(&page, "@LISTS@", lists);
  fill(&page, "@FILES@", files);
  fill(&page, "@CARDS@", cards);
  fill(&page, "@FACTS@", facts);
  fill(&page, "@TITLE@",
       escape(run.name) + (options.analyse ? ": analysis for Ascend NPUs" : ": migration to Ascend NPUs"));
  fill(&page, "@TITLE@", escape(run.name));
  return page;
}

}  // namespace migrate
