// npu-smi: the software NPUs of this machine and who uses them, with the options and outputs of the vendor's tool.
//   npu-smi info [-l | -m | -t <type> [-i <NPU>] [-c <chip>] | watch ...]     npu-smi set -t reset -i <NPU>     npu-smi -v
#include <stdio_ext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>

#include "softnpu/dcmi/machine.h"
#include "softnpu/runtime/error.h"
#include "softnpu/tools/npu_smi/commands.h"

using namespace softnpu;
using namespace softnpu::npu_smi;

namespace {

void usage() {
  printf(
      "usage: npu-smi info                               the NPUs and the processes that use them\n"
      "       npu-smi info -l                            the NPUs\n"
      "       npu-smi info -m                            their chips and the chips' numbers\n"
      "       npu-smi info -t <type> -i <NPU> [-c <chip>]\n"
      "       npu-smi info watch [-i <NPU>] [-c <chip>] [-d <seconds>] [-s <letters>]\n"
      "       npu-smi set -t reset -i <NPU>              refused while a process uses it\n"
      "       npu-smi -v | --version\n"
      "       npu-smi -h | --help\n"
      "types of info -t:\n");
  for (const Query& q : queries()) printf("  %-10s %s\n", q.type, q.what);
}

bool is_help(const std::string& word) { return word == "-h" || word == "--help"; }

int number(const std::string& option, const std::string& word) {
  char* end = nullptr;
  const long n = strtol(word.c_str(), &end, 10);
  if (word.empty() || *end || n < 0 || n > 1000000)
    fail(1, "%s takes a number, not '%s'", option.c_str(), word.c_str());
  return int(n);
}

// -x value pairs; each of `known` at most once.
std::map<std::string, std::string> options(const std::vector<std::string>& words, size_t from, const char* known) {
  std::map<std::string, std::string> found;
  for (size_t i = from; i < words.size(); i += 2) {
    const std::string& option = words[i];
    if (option.size() != 2 || option[0] != '-' || !strchr(known, option[1]))
      fail(1, "unknown option '%s'; npu-smi -h lists what there is", option.c_str());
    if (i + 1 >= words.size()) fail(1, "a value for %s is missing", option.c_str());
    if (!found.emplace(option, words[i + 1]).second) fail(1, "%s is given twice", option.c_str());
  }
  return found;
}

Place place_in(const std::map<std::string, std::string>& found) {
  Place place;
  if (auto it = found.find("-i"); it != found.end()) place.npu = number("-i", it->second);
  if (auto it = found.find("-c"); it != found.end()) place.chip = number("-c", it->second);
  return place;
}

void run_watch(const std::vector<std::string>& words) {
  if (words.size() > 2 && is_help(words[2])) return watch_help();
  const auto found = options(words, 2, "icds");
  const int seconds = found.contains("-d") ? number("-d", found.at("-d")) : 1;
  if (seconds < 1 || seconds > 100) fail(1, "-d takes 1 to 100 seconds, not %d", seconds);
  watch(place_in(found), seconds, found.contains("-s") ? found.at("-s") : kWatched);
}

// On stderr, where no reader of tables looks: what they may lack.
void tell_unseen() {
  fflush(stdout);
  for (const std::string& what : machine::unseen()) fprintf(stderr, "npu-smi: %s\n", what.c_str());
}

void run_query(const std::vector<std::string>& words) {
  const auto found = options(words, 1, "tic");
  if (!found.contains("-t")) fail(1, "npu-smi info with -i or -c needs -t <type>; npu-smi info -h lists the types");
  const std::string& type = found.at("-t");
  for (const Query& q : queries())
    if (type == q.type) {
      q.run(place_in(found));
      return tell_unseen();
    }
  std::string known;
  for (const Query& q : queries()) known += (known.empty() ? "" : ", ") + std::string(q.type);
  fail(1, "a software NPU has nothing to say of -t %s; it knows %s", type.c_str(), known.c_str());
}

void run_info(const std::vector<std::string>& words) {
  const std::string first = words.size() > 1 ? words[1] : "";
  if (first.empty()) {
    table();
    return tell_unseen();
  }
  if (is_help(first)) return usage();
  if (first == "watch") return run_watch(words);
  if (first != "-l" && first != "-m") return run_query(words);
  if (words.size() > 2) fail(1, "info %s takes nothing more, not '%s'", first.c_str(), words[2].c_str());
  first == "-l" ? list() : mapping();
}

void run_set(const std::vector<std::string>& words) {
  if (words.size() > 1 && is_help(words[1])) return usage();
  const auto found = options(words, 1, "ticmdsfp");
  const std::string type = found.contains("-t") ? found.at("-t") : "";
  if (type.empty()) fail(1, "set needs -t: give set -t reset -i <NPU>");
  if (type != "reset")
    fail(1,
         "nothing of a software NPU can be set by -t '%s'; it knows reset. What it is stands in the ANYCEND_ variables",
         type.c_str());
  for (const auto& [name, value] : found)
    if (name != "-t" && name != "-i" && name != "-c" && name != "-m")
      fail(1, "set -t reset does not take %s; it takes -i <NPU>, -c <chip> and -m <0|1>", name.c_str());
  // The two ways to reset are one here: nothing is kept.
  if (const auto way = found.find("-m"); way != found.end() && way->second != "0" && way->second != "1")
    fail(1, "set -t reset -m takes 0 or 1, not '%s'", way->second.c_str());
  reset(place_in(found));
}

void run(const std::vector<std::string>& words) {
  const std::string first = words.empty() ? "-h" : words[0];
  if (is_help(first)) return usage();
  if (first == "-v" || first == "--version") {
    printf("npu-smi version: %s\n", machine::version());
  } else if (first == "info") {
    run_info(words);
  } else if (first == "set") {
    run_set(words);
  } else if (first == "clear" || first == "upgrade") {
    if (words.size() > 1 && is_help(words[1])) return usage();
    fail(1, "a software NPU has nothing to %s: no counters of errors and no firmware", first.c_str());
  } else {
    fail(1, "unknown command '%s'; npu-smi -h lists what there is", first.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Nothing is printed of an answer that fails in its middle.
  setvbuf(stdout, nullptr, _IOFBF, 1 << 20);
  std::string error;
  try {
    run({argv + 1, argv + argc});
    return fflush(stdout) == 0 ? 0 : 1;
  } catch (const Error& e) {
    error = e.message;
  } catch (const std::exception& e) {
    error = e.what();
  }
  __fpurge(stdout);
  fprintf(stderr, "npu-smi: %s\n", error.c_str());
  return 1;
}
