#include "csrc/cann/log.h"

#include <cstdint>

#include "csrc/cann/library.h"

namespace cann {

void log(int level, const char* function, const char* file, unsigned line, const char* text) {
  using AppLog = void (*)(int, const char*, const char*, uint32_t, const char*, ...);
  static const auto write = reinterpret_cast<AppLog>(find_symbol(open_library("ascendcl"), "aclAppLog"));
  if (write) write(level, function, file, line, "%s", text);
}

}  // namespace cann
