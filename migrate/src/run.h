// One run of the tool: finds the files, rewrites them in parallel, and hands the results on in sorted order.
#pragma once
#include <string>
#include <vector>

#include "migrate/src/files.h"
#include "migrate/src/options.h"
#include "migrate/src/rewriter.h"

namespace migrate {

struct RunResult {
  std::string root;                   // the input folder, absolute
  std::string name;                   // of the input, without the suffix of a file
  std::vector<FileResult> files;      // every Python (and with --configs, configuration) file, sorted by path
  std::vector<Entry> entries;         // everything below the input, sorted
  std::vector<std::string> problems;  // what could not be read
  Settings settings;
  double seconds = 0;
  long lines = 0;
  int changed = 0, skipped = 0;
  std::string output;  // the folder made, or empty

  int count(Finding::Category category) const;
};

// Rewrites in memory. Returns what went wrong, or empty.
std::string run_rewrite(const Options& options, const Rules& rules, const std::vector<std::string>& skip,
                        RunResult* result);

}  // namespace migrate
