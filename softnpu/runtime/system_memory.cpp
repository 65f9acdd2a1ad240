#include "softnpu/runtime/system_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softnpu {
namespace {

// A whole small file; empty when it cannot be read. No allocation: this runs near the end of memory.
struct Text {
  char data[8192];
  explicit Text(const char* path) noexcept {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, data, sizeof data - 1);
    if (fd >= 0) close(fd);
    data[n > 0 ? n : 0] = 0;
  }
};

uint64_t field(const char* text, const char* name) noexcept {
  const char* at = strstr(text, name);
  return at ? strtoull(at + strlen(name), nullptr, 10) : 0;
}

uint64_t number(const char* path) noexcept {
  Text t(path);
  return t.data[0] >= '0' && t.data[0] <= '9' ? strtoull(t.data, nullptr, 10) : UINT64_MAX;  // "max" is no limit
}

struct Group {
  uint64_t limit = UINT64_MAX;
  uint64_t used = 0;
};

// The cgroup's own folder first (where it is mounted at its path), then the mount's root (inside a container).
Group group() noexcept {
  Text self("/proc/self/cgroup");
  for (char* line = self.data; *line;) {
    char* end = strchrnul(line, '\n');
    bool last = *end == 0;
    *end = 0;
    char* controllers = strchr(line, ':');
    char* path = controllers ? strchr(controllers + 1, ':') : nullptr;
    if (path) {
      *path++ = 0;
      ++controllers;
      bool v2 = *controllers == 0;
      if (v2 || strstr(controllers, "memory")) {
        const char* bases[] = {path, ""};
        for (const char* base : bases) {
          char file[640];
          Group g;
          uint64_t cache = 0;
          const char* root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
          snprintf(file, sizeof file, "%s%.500s/%s", root, base, v2 ? "memory.max" : "memory.limit_in_bytes");
          g.limit = number(file);
          if (g.limit == UINT64_MAX || g.limit > (1ull << 60)) continue;
          snprintf(file, sizeof file, "%s%.500s/%s", root, base, v2 ? "memory.current" : "memory.usage_in_bytes");
          g.used = number(file);
          snprintf(file, sizeof file, "%s%.500s/memory.stat", root, base);
          Text stat(file);
          cache = field(stat.data, v2 ? "\ninactive_file " : "\ntotal_inactive_file ");
          if (g.used == UINT64_MAX) g.used = 0;
          g.used -= std::min(g.used, cache);
          return g;
        }
      }
    }
    if (last) break;
    line = end + 1;
  }
  return {};
}

}  // namespace

SystemMemory system_memory() noexcept {
  Text info("/proc/meminfo");
  SystemMemory m;
  m.limit = field(info.data, "MemTotal:") << 10;
  m.available = field(info.data, "MemAvailable:") << 10;
  Group g = group();
  if (g.limit < m.limit) {
    m.limit = g.limit;
    m.available = std::min(m.available, g.limit - std::min(g.limit, g.used));
  }
  m.reserve = std::max<uint64_t>(1ull << 30, m.limit / 20);
  return m;
}

}  // namespace softnpu
