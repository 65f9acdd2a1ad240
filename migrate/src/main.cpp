// pytorch_gpu2npu. Reads the command line, runs, reports; exit codes are in options.h.
#include <malloc.h>

#include <clocale>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "migrate/src/diff.h"
#include "migrate/src/options.h"
#include "migrate/src/output_tree.h"
#include "migrate/src/run.h"

namespace migrate {
namespace {

void print(const std::string& text) { fwrite(text.data(), 1, text.size(), stdout); }

int fail(const std::string& message, int code = kFailed) {
  fprintf(stderr, "pytorch_gpu2npu: %s\n", message.c_str());
  return code;
}

int run(const Options& options) {
  Rules rules;
  if (!options.rules.empty())
    if (std::string error = rules.load(options.rules); !error.empty()) return fail(error);
  std::vector<std::string> skip;
  RunResult result;
  if (!options.output.empty()) {
    std::error_code failed;
    auto input = std::filesystem::canonical(options.input, failed);
    for (const char* tail : {"_msft", "_msft_multi", "_analysis"})
      skip.push_back((std::filesystem::weakly_canonical(options.output, failed) / (input.filename().string() + tail))
                         .lexically_normal()
                         .string());
  }
  if (std::string error = run_rewrite(options, rules, skip, &result); !error.empty()) return fail(error);
  std::vector<std::string> failed = failures(result);
  int code = kDone;
  if (!failed.empty())
    code = kFailed;
  else if (options.check && result.changed)
    code = kChangesNeeded;
  else if (options.strict && result.count(Finding::kUnsupported))
    code = kUnsupportedFound;
  if (options.diff && !options.json)
    for (const FileResult& file : result.files)
      if (file.changed) print(unified_diff(file));
  if (!options.output.empty() && !options.check) {
    if (std::string error = write_output(options, &result); !error.empty()) return fail(error);
  } else if (options.in_place) {
    if (std::string error = write_in_place(result); !error.empty()) return fail(error);
  }
  if (options.json)
    print(json_report(options, result, code));
  else if (options.diff)
    fputs(summary(options, result).c_str(), stderr);
  else if (!options.quiet)
    print(summary(options, result));
  for (const std::string& why : failed) fail(why);
  return code;
}

}  // namespace
}  // namespace migrate

int main(int argc, char** argv) {
  using namespace migrate;
  setlocale(LC_TIME, "C");
  // A tree is made and dropped for every file: keep the pages instead of giving them back and clearing them again.
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  try {
    Options options;
    if (std::string error = parse_options({argv + 1, argv + argc}, &options); !error.empty())
      return fail(error + "\n(pytorch_gpu2npu -h shows the arguments)", kUsage);
    if (options.help || options.show_version) {
      print(options.help ? usage() : std::string("pytorch_gpu2npu ") + ANYCEND_VERSION + "\n");
      return kDone;
    }
    int code = run(options);
    if (fflush(stdout) != 0) return fail("the output could not be written");
    return code;
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
