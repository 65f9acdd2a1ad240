// msnpureport: collects the software NPU's logs into a folder, with the options of the vendor's tool. What it is not: a tool that
// reaches into running processes. A software NPU has no log of its own: each process that uses it writes one on the host, at the
// level of its ASCEND_GLOBAL_LOG_LEVEL. Setting a level here is answered by what stands in the environment.
//   msnpureport [report] [-a | -f] [-d <device>]      msnpureport -r | -g <level> | -e enable|disable [-d <device>]
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "softnpu/dcmi/machine.h"
#include "softnpu/runtime/error.h"

using softnpu::Error;
using softnpu::fail;
namespace fs = std::filesystem;

namespace {

constexpr const char* kLevels[] = {"debug", "info", "warning", "error", "null"};

void usage() {
  printf(
      "usage: msnpureport [report] [-a | -f] [-d <device>]   copy the logs of the processes to ./<time>/slog/host\n"
      "       msnpureport -r [-d <device>]                   the log level of processes started here\n"
      "       msnpureport -g <level> [-d <device>]           debug, info, warning, error or null: is it that level?\n"
      "       msnpureport -e enable | disable [-d <device>]  event logs: there are none\n"
      "       msnpureport -h | --help\n"
      "A software NPU has no log of its own: the processes that use it write theirs to ~/ascend/log, or where\n"
      "ASCEND_PROCESS_LOG_PATH says, at the level that ASCEND_GLOBAL_LOG_LEVEL says (0 debug to 3 error, 4 "
      "nothing).\n");
}

// As softnpu/runtime/log.cpp reads it.
int level() {
  const char* text = getenv("ASCEND_GLOBAL_LOG_LEVEL");
  return text && text[0] >= '0' && text[0] <= '4' && !text[1] ? text[0] - '0' : 3;
}

fs::path logs() {
  if (const char* folder = getenv("ASCEND_PROCESS_LOG_PATH"); folder && *folder) return folder;
  const char* home = getenv("HOME");
  if (!home || !*home) fail(1, "neither ASCEND_PROCESS_LOG_PATH nor HOME says where the logs are");
  return fs::path(home) / "ascend" / "log";
}

void check_device(const std::string& word) {
  char* end = nullptr;
  const long device = strtol(word.c_str(), &end, 10);
  if (word.empty() || *end || device < 0 || device >= softnpu::machine::chip_count())
    fail(1, "there is no device %s; ANYCEND_DEVICES says how many there are, now %d", word.c_str(),
         softnpu::machine::chip_count());
}

void collect() {
  const fs::path from = logs();
  if (!fs::is_directory(from))
    fail(1,
         "there are no logs in %s: none is written until a call fails at the level set. ASCEND_GLOBAL_LOG_LEVEL=1 "
         "writes more",
         from.c_str());
  const time_t now = time(nullptr);
  tm day;
  localtime_r(&now, &day);
  char stamp[32];
  strftime(stamp, sizeof stamp, "%Y-%m-%d-%H-%M-%S", &day);
  const fs::path to = fs::path(stamp) / "slog" / "host";
  if (fs::exists(stamp)) fail(1, "%s exists already: wait a second, or start it in another folder", stamp);
  fs::create_directories(to);
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    const fs::path target = to / fs::relative(entry.path(), from);
    fs::create_directories(target.parent_path());
    fs::copy_file(entry.path(), target);
    ++count;
  }
  printf("%d log files of the host's processes copied from %s to %s; a software NPU has no log of its own\n", count,
         from.c_str(), to.c_str());
}

void ask_level(const std::string& wanted) {
  for (int i = 0; i < int(std::size(kLevels)); ++i) {
    if (wanted != kLevels[i]) continue;
    if (i != level())
      fail(1, "a software NPU has no level of its own: export ASCEND_GLOBAL_LOG_LEVEL=%d before the program starts", i);
    printf("the level is %s: processes started here log so\n", kLevels[i]);
    return;
  }
  fail(1, "-g takes debug, info, warning, error or null, not '%s'", wanted.c_str());
}

void ask_events(const std::string& wanted) {
  if (wanted == "enable") fail(1, "the software NPU logs no events: they cannot be enabled");
  if (wanted != "disable") fail(1, "-e takes enable or disable, not '%s'", wanted.c_str());
  printf("events are disabled: the software NPU logs none\n");
}

void run(const std::vector<std::string>& words) {
  std::string what = "report", value;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-h" || word == "--help") return usage();
    if (word == "report" || word == "-a" || word == "-f") continue;
    if (word == "-r") {
      what = word;
    } else if (word == "-d" || word == "-g" || word == "-e") {
      if (i + 1 == words.size()) fail(1, "a value for %s is missing", word.c_str());
      ++i;
      if (word == "-d") {
        check_device(words[i]);
      } else {
        what = word, value = words[i];
      }
    } else {
      fail(1, "a software NPU knows no '%s'; msnpureport -h lists what there is", word.c_str());
    }
  }
  if (what == "-r") {
    const char* events = getenv("ASCEND_GLOBAL_EVENT_ENABLE");
    const bool asked = events && !strcmp(events, "1");
    printf("global level: %s (ASCEND_GLOBAL_LOG_LEVEL); events: disable%s\n", kLevels[level()],
           asked ? ", in spite of ASCEND_GLOBAL_EVENT_ENABLE=1: the software NPU logs none" : "");
  } else if (what == "-g") {
    ask_level(value);
  } else if (what == "-e") {
    ask_events(value);
  } else {
    collect();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return fflush(stdout) == 0 ? 0 : 1;
  } catch (const Error& e) {
    fprintf(stderr, "msnpureport: %s\n", e.message.c_str());
  } catch (const std::exception& e) {
    fprintf(stderr, "msnpureport: %s\n", e.what());
  }
  return 1;
}
