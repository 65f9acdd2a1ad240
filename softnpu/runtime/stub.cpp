#include "softnpu/runtime/stub.h"

#include <cstdio>

#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/log.h"

namespace softnpu {

void report_stub(const char* symbol, const char* library) noexcept {
  char text[256];
  snprintf(text, sizeof text, "%s (%s) is not supported by the software NPU", symbol, library);
  set_error_message(text);
  log_line(kWarning, "%s", text);
}

}  // namespace softnpu
