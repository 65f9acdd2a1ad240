// See diff.h.
#include "migrate/src/diff.h"

#include <algorithm>
#include <utility>

#include "migrate/src/source.h"

namespace migrate {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    size_t end = text.find('\n');
    size_t size = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

std::string without_newline(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  return std::string(line);
}

}  // namespace

std::vector<Hunk> hunks(const FileResult& result, int context) {
  // Lines by '\n' alone: a lone CR stays inside its line, as diff and patch see it.
  std::vector<std::string_view> old_lines = lines_of(result.original), new_lines = lines_of(result.migrated);
  std::vector<Hunk> found;
  // Common head and tail between neighbouring edits are found by walking both texts in step with the edits.
  size_t o = 0, n = 0;
  size_t old_at = 0;  // byte where old line o begins
  size_t next_edit = 0;
  const std::vector<Edit>& edits = result.edits;
  while (o < old_lines.size() || n < new_lines.size()) {
    bool touched =
        next_edit < edits.size() && edits[next_edit].start < old_at + (o < old_lines.size() ? old_lines[o].size() : 1);
    if (o == old_lines.size() && next_edit < edits.size()) touched = true;
    if (!touched) {
      if (o < old_lines.size()) old_at += old_lines[o].size(), ++o;
      if (n < new_lines.size())
        ++n;
      else if (o == old_lines.size())
        break;
      continue;
    }
    // All old lines that edits of this group touch, and the text they become.
    Hunk hunk;
    hunk.old_line = static_cast<int>(o) + 1, hunk.new_line = static_cast<int>(n) + 1;
    size_t first = old_at, end = old_at, first_edit = next_edit;
    size_t o_end = o;
    while (next_edit < edits.size() && (edits[next_edit].start < end || next_edit == first_edit)) {
      size_t reach = std::max<size_t>(edits[next_edit].end, edits[next_edit].start + 1);
      while (o_end < old_lines.size() && end < reach) end += old_lines[o_end++].size();
      // An edit that removes the newline joins the next line.
      bool removes_newline = edits[next_edit].end == end && edits[next_edit].end > edits[next_edit].start &&
                             !edits[next_edit].text.ends_with('\n');
      if (removes_newline && o_end < old_lines.size()) end += old_lines[o_end++].size();
      ++next_edit;
      if (o_end >= old_lines.size() && end < reach) end = reach;
    }
    end = std::min(end, result.original.size());
    std::vector<Edit> local(edits.begin() + first_edit, edits.begin() + next_edit);
    for (Edit& edit : local) edit.start -= first, edit.end -= first;
    std::string after = edited(std::string_view(result.original).substr(first, end - first), local);
    for (; o < o_end; ++o) hunk.before.push_back(without_newline(old_lines[o]));
    old_at = end;
    std::vector<std::string_view> made = lines_of(after);
    for (std::string_view line : made) hunk.after.push_back(without_newline(line));
    n += made.size();
    // Lines that came out as they were (the line an insertion stands before) are context.
    int lead = 0;
    while (!hunk.before.empty() && !hunk.after.empty() && hunk.before.back() == hunk.after.back())
      hunk.trail.insert(hunk.trail.begin(), hunk.before.back()), hunk.before.pop_back(), hunk.after.pop_back();
    while (!hunk.before.empty() && !hunk.after.empty() && hunk.before.front() == hunk.after.front())
      hunk.before.erase(hunk.before.begin()), hunk.after.erase(hunk.after.begin()), ++lead;
    hunk.old_line += lead, hunk.new_line += lead;
    found.push_back(std::move(hunk));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    Hunk& hunk = found[i];
    int previous_end =
        i ? found[i - 1].old_line + static_cast<int>(found[i - 1].before.size() + found[i - 1].trail.size()) : 1;
    for (int line = std::max(previous_end, hunk.old_line - context); line < hunk.old_line; ++line)
      hunk.lead.push_back(without_newline(old_lines[line - 1]));
    int after = hunk.old_line + static_cast<int>(hunk.before.size());
    int limit = i + 1 < found.size() ? found[i + 1].old_line : static_cast<int>(old_lines.size()) + 1;
    hunk.trail.clear();
    for (int line = after; line < std::min(after + context, limit); ++line)
      hunk.trail.push_back(without_newline(old_lines[line - 1]));
  }
  return found;
}

std::string unified_diff(const FileResult& result) {
  std::string out = "--- a/" + result.path + "\n+++ b/" + result.path + "\n";
  int old_total = static_cast<int>(lines_of(result.original).size()),
      new_total = static_cast<int>(lines_of(result.migrated).size());
  bool old_open = !result.original.ends_with('\n'), new_open = !result.migrated.ends_with('\n');
  int old_from = 0, old_at = 0, new_from = 0, new_at = 0;  // lines of the group being written, from 1
  std::string body;
  auto range = [](int from, int to) {
    return std::to_string(to > from ? from : from - 1) + "," + std::to_string(to - from);
  };
  auto flush = [&] {
    if (!body.empty())
      out += "@@ -" + range(old_from, old_at) + " +" + range(new_from, new_at) + " @@\n" + std::exchange(body, "");
  };
  auto put = [&](char mark, const std::string& line) {
    body += mark + line + "\n";
    bool open = false;
    if (mark != '+') open = old_at++ == old_total && old_open;
    if (mark != '-') open = (new_at++ == new_total && new_open) || open;
    if (open) body += "\\ No newline at end of file\n";
  };
  for (const Hunk& hunk : hunks(result, 3)) {
    int lead = static_cast<int>(hunk.lead.size());
    if (hunk.old_line - lead != old_at) {  // hunks that touch are one group
      flush();
      old_from = old_at = hunk.old_line - lead, new_from = new_at = hunk.new_line - lead;
    }
    for (const std::string& line : hunk.lead) put(' ', line);
    for (const std::string& line : hunk.before) put('-', line);
    for (const std::string& line : hunk.after) put('+', line);
    for (const std::string& line : hunk.trail) put(' ', line);
  }
  flush();
  return out;
}

}  // namespace migrate
