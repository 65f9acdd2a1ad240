#include "softnpu/runtime/stub.h"

#include <cstdio>

#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/log.h"

namespace softnpu {

void report_stub(const char* symbol, const char* library, int acl_error, const char* why) noexcept {
  char text[400];
  snprintf(text, sizeof text, "%s (%s) is not supported by the software NPU%s%s", symbol, library, why ? ": " : "",
           why ? why : "");
  set_error_message(text);
  if (acl_error) set_last_error(acl_error);
  log_line(kWarning, "%s", text);
}

}  // namespace softnpu
