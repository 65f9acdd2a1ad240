// The thread's recent message, as aclGetRecentErrMsg hands it out.
#include "softnpu/runtime/error.h"

#include <cstdio>
#include <cstring>

#include "softnpu/runtime/context.h"
#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/log.h"

namespace softnpu {
namespace {

constexpr size_t kMaxMessage = 2048;

// Trivial on purpose: it outlives every thread-exit handler that may still call us.
struct Recent {
  char text[kMaxMessage];
  char handed_out[kMaxMessage];
  int last;  // status
};
thread_local Recent recent;

}  // namespace

int report(const char* call, int code, const char* text) noexcept {
  snprintf(recent.text, sizeof recent.text, "%s: %s", call, text);
  recent.last = code;
  log_line(kInfo, "%s returns %d: %s", call, code, text);
  return code;
}

int refuse(const char* call) noexcept {
  if (life() == Life::kForked) {
    snprintf(recent.text, sizeof recent.text,
             "%s: this process was forked from one that uses the NPU; a forked child cannot use it (start it by spawn)",
             call);
    recent.last = ACL_ERROR_RT_DEV_SETUP_ERROR;
    return ACL_ERROR_RT_DEV_SETUP_ERROR;
  }
  snprintf(recent.text, sizeof recent.text, "%s: the process is exiting and the NPU is shut down", call);
  recent.last = ACL_ERROR_UNINITIALIZE;
  return ACL_ERROR_UNINITIALIZE;
}

int struck(const char* call) noexcept {
  const Context* context = current_context_or_null();
  return struck(call, context ? context->device() : -1);
}

int struck(const char* call, int device) noexcept {
  const int code = sanitize::fault_of_call(call, device);
  return code ? report(call, code, sanitize::fault_message()) : 0;
}

const char* take_recent_message() noexcept {
  memcpy(recent.handed_out, recent.text, sizeof recent.text);
  recent.text[0] = 0;
  return recent.handed_out;
}

int last_error() noexcept { return recent.last; }
void set_last_error(int code) noexcept { recent.last = code; }

void set_error_message(const char* text) noexcept { snprintf(recent.text, sizeof recent.text, "%s", text ? text : ""); }

}  // namespace softnpu
