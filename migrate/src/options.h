// The command line. Nothing is done here but reading it; what is wrong with it comes back as text (exit code 2).
#pragma once
#include <string>
#include <vector>

namespace migrate {

// Exit codes of the tool.
enum Exit : int { kDone = 0, kFailed = 1, kUsage = 2, kChangesNeeded = 3, kUnsupportedFound = 4 };

struct Options {
  bool help = false, show_version = false;
  bool analyse = false;  // only the analysis
  std::string input, output;
  std::string version = "2.13.0";    // PyTorch's, that the script was written for
  bool replace_unsupported = false;  // -s
  bool modelarts = false;            // -m
  bool distributed = false;
  std::string main_file, model = "model";
  bool check = false, diff = false, in_place = false, strict = false;
  bool configs = false, json = false, html = false, yes = false, quiet = false;
  std::string rules;
  int jobs = 0;  // 0: one a core

  // Whether migrated files are written somewhere.
  bool migrates() const { return !check && !analyse && (in_place || !output.empty()); }
};

// Returns what is wrong, or empty.
std::string parse_options(const std::vector<std::string>& arguments, Options* options);
std::string usage();

}  // namespace migrate
