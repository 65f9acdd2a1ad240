// See options.h. -m means ModelArts before the word "distributed" and the entry script after it, as documented.
#include "migrate/src/options.h"

#include <algorithm>

#include "migrate/src/rules.h"

namespace migrate {

std::string usage() {
  return R"(Rewrites PyTorch training scripts for CUDA devices into scripts for Ascend NPUs.

  pytorch_gpu2npu -i INPUT -o OUTPUT [-v VERSION] [-s] [-m] [options] [distributed -m MAIN [-t MODEL]]
  pytorch_gpu2npu -i INPUT --check | --diff | --in-place [options]
  pytorch_gpu2npu analyse -i INPUT -o OUTPUT [-v VERSION] [options]

  -i, --input PATH        folder or file to migrate
  -o, --output PATH       where NAME_msft (NAME_msft_multi with distributed, NAME_analysis with analyse) is made
  -v, --version VERSION   PyTorch version of the scripts, 1.11 to 2.13 (default 2.13.0); chooses the support lists
  -s, --replace-unsupported   write ascend_function/ and use its exact equivalents of unsupported APIs
  -m, --modelarts         write ascend_modelarts_function/ and map the scripts' paths through it
  distributed             one card to several: the last word before
    -m, --main FILE         the entry script
    -t, --target-model NAME the variable that holds the model (default: model)

  --check                 write nothing; exit code 3 if something would change
  --diff                  print a unified diff; alone it writes nothing
  --in-place              change the files where they are
  --configs               also YAML, JSON, TOML, INI and shell files and notebooks
  --rules FILE            more rules (JSON: names, strings, unsupported, foreign)
  --strict                exit code 4 if unsupported APIs were found
  --report html           also write report.html, one file with summary, diffs and findings
  --json                  print one JSON object instead of the summary
  --jobs N                threads (default: one a core)
  --yes                   replace an output folder of an earlier run without asking
  -q, --quiet             no progress, no summary
  -h, --help, --tool-version

Exit codes: 0 done, 1 failure, 2 usage, 3 changes needed (--check), 4 unsupported APIs (--strict).
1, too, where the result of distributed would not train as one job: no model of that name, no process group.
)";
}

namespace {

// The versions there are, of which data/support.tsv tells; the default of -v is the newest.
bool is_known(int version) { return (version >= 1011 && version <= 1013) || (version >= 2000 && version <= 2013); }

}  // namespace

std::string parse_options(const std::vector<std::string>& arguments, Options* o) {
  bool after_distributed = false;
  size_t i = 0;
  if (!arguments.empty() && (arguments[0] == "analyse" || arguments[0] == "analyze")) o->analyse = true, i = 1;
  for (; i < arguments.size(); ++i) {
    std::string argument = arguments[i], inline_value;
    bool has_inline = false;
    if (size_t equals = argument.find('='); argument.starts_with("--") && equals != std::string::npos) {
      inline_value = argument.substr(equals + 1), argument.resize(equals), has_inline = true;
    }
    std::string error;
    auto value = [&](std::string* into) {
      if (has_inline) {
        *into = inline_value;
      } else if (i + 1 < arguments.size()) {
        *into = arguments[++i];
      } else {
        error = argument + " needs a value";
      }
      if (error.empty() && into->empty()) error = argument + " needs a value";
    };
    if (argument == "-h" || argument == "--help") {
      o->help = true;
    } else if (argument == "--tool-version") {
      o->show_version = true;
    } else if (argument == "distributed") {
      o->distributed = after_distributed = true;
    } else if (after_distributed && (argument == "-m" || argument == "--main")) {
      value(&o->main_file);
    } else if (after_distributed && (argument == "-t" || argument == "--target-model")) {
      value(&o->model);
    } else if (argument == "-i" || argument == "--input") {
      value(&o->input);
    } else if (argument == "-o" || argument == "--output") {
      value(&o->output);
    } else if (argument == "-v" || argument == "--version") {
      value(&o->version);
    } else if (argument == "-s" || argument == "--replace-unsupported") {
      o->replace_unsupported = true;
    } else if (argument == "-m" || argument == "--modelarts") {
      o->modelarts = true;
    } else if (argument == "--check") {
      o->check = true;
    } else if (argument == "--diff") {
      o->diff = true;
    } else if (argument == "--in-place") {
      o->in_place = true;
    } else if (argument == "--configs") {
      o->configs = true;
    } else if (argument == "--json") {
      o->json = true;
    } else if (argument == "--strict") {
      o->strict = true;
    } else if (argument == "--yes" || argument == "-y") {
      o->yes = true;
    } else if (argument == "-q" || argument == "--quiet") {
      o->quiet = true;
    } else if (argument == "--rules") {
      value(&o->rules);
    } else if (argument == "--report") {
      std::string kind;
      value(&kind);
      if (error.empty() && kind != "html") error = "--report knows html only, not " + kind;
      o->html = true;
    } else if (argument == "--jobs" || argument == "-j") {
      std::string number;
      value(&number);
      bool digits = !number.empty() && number.size() < 5 &&
                    std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (error.empty() && (!digits || number == "0")) error = "--jobs needs a number from 1, not " + number;
      if (error.empty()) o->jobs = std::stoi(number);
    } else {
      error = "unknown argument: " + arguments[i];
    }
    if (!error.empty()) return error;
  }
  if (o->help || o->show_version) return "";
  if (o->input.empty()) return "-i is needed: the folder or file to migrate";
  if (!is_known(version_number(o->version)))
    return "-v needs a version of PyTorch, 1.11 to 1.13 or 2.0 to 2.13, not " + o->version;
  bool dry = o->check || o->diff || o->in_place;
  if (o->output.empty() && !dry) return "-o is needed: where the result goes (or --check, --diff, --in-place)";
  if (o->analyse && (o->check || o->diff || o->in_place || o->distributed))
    return "analyse changes nothing: --check, --diff, --in-place and distributed do not go with it";
  if (o->in_place && !o->output.empty()) return "--in-place and -o exclude each other";
  if (o->in_place && o->check) return "--in-place and --check exclude each other";
  if (o->in_place && (o->replace_unsupported || o->modelarts || o->distributed))
    return "-s, -m and distributed write new files: they need -o, not --in-place";
  if (o->distributed && o->main_file.empty()) return "distributed needs -m: the entry script";
  if (o->html && o->output.empty()) return "--report needs -o";
  return "";
}

}  // namespace migrate
