// Edits as lines: hunks for --diff and the side-by-side view. Made from the edits themselves, not by comparing texts.
#pragma once
#include <string>
#include <vector>

#include "migrate/src/rewriter.h"

namespace migrate {

struct Hunk {
  int old_line = 1, new_line = 1;          // of the first line, from 1
  std::vector<std::string> before, after;  // changed lines, without newlines
  std::vector<std::string> lead, trail;    // context
};

std::vector<Hunk> hunks(const FileResult& result, int context);
// As git and patch apply it: the file's own bytes, three lines of context.
std::string unified_diff(const FileResult& result);

}  // namespace migrate
