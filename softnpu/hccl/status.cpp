// See status.h.
#include "softnpu/hccl/status.h"

#include <cstdarg>
#include <cstdio>

#include "softnpu/runtime/enqueue.h"

namespace softnpu::hccl {

void fail(HcclResult code, const char* format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  throw Error{code, text};
}

const char* code_name(HcclResult code) noexcept {
  static const char* const names[] = {"HCCL_SUCCESS",
                                      "HCCL_E_PARA",
                                      "HCCL_E_PTR",
                                      "HCCL_E_MEMORY",
                                      "HCCL_E_INTERNAL",
                                      "HCCL_E_NOT_SUPPORT",
                                      "HCCL_E_NOT_FOUND",
                                      "HCCL_E_UNAVAIL",
                                      "HCCL_E_SYSCALL",
                                      "HCCL_E_TIMEOUT",
                                      "HCCL_E_OPEN_FILE_FAILURE",
                                      "HCCL_E_TCP_CONNECT",
                                      "HCCL_E_ROCE_CONNECT",
                                      "HCCL_E_TCP_TRANSFER",
                                      "HCCL_E_ROCE_TRANSFER",
                                      "HCCL_E_RUNTIME",
                                      "HCCL_E_DRV",
                                      "HCCL_E_PROFILING",
                                      "HCCL_E_CCE",
                                      "HCCL_E_NETWORK",
                                      "HCCL_E_AGAIN",
                                      "HCCL_E_REMOTE",
                                      "HCCL_E_SUSPENDING",
                                      "HCCL_E_OPRETRY_FAIL",
                                      "HCCL_E_OOM"};
  return static_cast<unsigned>(code) < sizeof names / sizeof *names ? names[code] : "unknown HcclResult";
}

void report(const char* function, HcclResult code, const char* text) noexcept {
  char line[1280];
  snprintf(line, sizeof line, "%s returned %s: %s", function, code_name(code), text);
  set_error_message(line);
}

}  // namespace softnpu::hccl
