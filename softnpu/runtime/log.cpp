// The file is opened at the first line that the level lets through: a quiet process leaves nothing behind.
#include "softnpu/runtime/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace softnpu {
namespace {

struct Sink {
  int level = kError;
  bool to_stdout = false;
};

const Sink& sink() noexcept {
  static const Sink s = [] {
    Sink r;
    if (const char* v = getenv("ASCEND_GLOBAL_LOG_LEVEL"); v && v[0] >= '0' && v[0] <= '4' && !v[1])
      r.level = v[0] - '0';
    if (const char* v = getenv("ASCEND_SLOG_PRINT_TO_STDOUT")) r.to_stdout = strcmp(v, "1") == 0;
    return r;
  }();
  return s;
}

void make_folders(const std::string& path) noexcept {
  for (size_t i = 1; i <= path.size(); ++i)
    if (i == path.size() || path[i] == '/') mkdir(path.substr(0, i).c_str(), 0750);
}

int open_file() {
  std::string folder;
  if (const char* v = getenv("ASCEND_PROCESS_LOG_PATH"); v && *v)
    folder = v;
  else if (const char* home = getenv("HOME"); home && *home)
    folder = std::string(home) + "/ascend/log";
  else
    return -1;
  folder += "/debug/plog";
  make_folders(folder);
  char name[96];
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  tm day;
  gmtime_r(&t.tv_sec, &day);
  char stamp[32];
  strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &day);
  snprintf(name, sizeof name, "/plog-%d_%s%03ld.log", int(getpid()), stamp, t.tv_nsec / 1000000);
  return open((folder + name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

int file() noexcept {
  static const int fd = [] {
    try {
      return open_file();
    } catch (...) {
      return -1;
    }
  }();
  return fd;
}

}  // namespace

int log_level() noexcept { return sink().level; }

void log_line_v(int level, const char* format, va_list args) noexcept {
  const Sink& s = sink();
  if (level < s.level || level >= kNothing || level < 0) return;
  static const char* const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  char line[2304];
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  tm day;
  gmtime_r(&t.tv_sec, &day);
  char stamp[40];
  strftime(stamp, sizeof stamp, "%Y-%m-%d-%H:%M:%S", &day);
  int n = snprintf(line, sizeof line, "[%s] SOFTNPU(%d,%d):%s.%03ld.%03ld ", names[level], int(getpid()), int(gettid()),
                   stamp, t.tv_nsec / 1000000, t.tv_nsec / 1000 % 1000);
  int m = vsnprintf(line + n, sizeof line - n - 1, format, args);
  n += m < 0 ? 0 : m;
  if (n > int(sizeof line) - 2) n = sizeof line - 2;
  line[n++] = '\n';
  // One write a line: lines of several threads and processes do not mix.
  int fd = s.to_stdout ? STDOUT_FILENO : file();
  if (fd >= 0 && write(fd, line, n) < 0) return;
}

void log_line(int level, const char* format, ...) noexcept {
  va_list args;
  va_start(args, format);
  log_line_v(level, format, args);
  va_end(args);
}

}  // namespace softnpu
