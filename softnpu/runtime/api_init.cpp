// Exports: start, end, error messages, the log.
#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "acl/api.h"
#include "softnpu/runtime/config.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/init_file.h"
#include "softnpu/runtime/log.h"

using namespace softnpu;

namespace {
std::atomic<uint64_t> g_inits{0};
}

SOFTNPU_EXPORT aclError aclInit(const char* configPath) {
  return guarded(__func__, [&] {
    config();
    if (g_inits.fetch_add(1) != 0) {
      g_inits = 1;
      fail(ACL_ERROR_REPEAT_INITIALIZE, "the library is initialized already");
    }
    if (configPath && *configPath) {
      try {
        apply_init_file(configPath);
      } catch (...) {
        g_inits = 0;
        throw;
      }
    }
  });
}

SOFTNPU_EXPORT aclError aclFinalize() {
  return guarded(__func__, [&] {
    if (g_inits.exchange(0) == 0) fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
  });
}

SOFTNPU_EXPORT aclError aclFinalizeReference(uint64_t* refCount) {
  return guarded(__func__, [&] {
    if (g_inits.exchange(0) == 0) fail(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    if (refCount) *refCount = 0;
  });
}

SOFTNPU_EXPORT const char* aclGetRecentErrMsg() { return take_recent_message(); }

// Variadic: declared by hand, the generated header has no such row.
SOFTNPU_EXPORT void aclAppLog(aclLogLevel level, const char* func, const char* file, uint32_t line, const char* fmt,
                              ...) {
  if (int(level) < log_level() || fmt == nullptr) return;
  char text[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  log_line(level, "%s:%u %s: %s", file ? file : "", line, func ? func : "", text);
}
