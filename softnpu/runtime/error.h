// How a failure travels inside the runtime and leaves it: throw Error, and `guarded` turns it into a status and a message.
// Who uses it: every api_*.cpp (guarded) and everything below (fail).
#pragma once

#include <exception>
#include <new>
#include <string>

#include "acl/enums.h"
#include "softnpu/runtime/process.h"
#include "softnpu/sanitize/faults.h"

#define SOFTNPU_EXPORT extern "C" __attribute__((visibility("default")))

namespace softnpu {

struct Error {
  int code;
  std::string message;
};

[[noreturn]] void fail(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// Throws ACL_ERROR_INVALID_PARAM, naming the parameter.
inline void need(const void* pointer, const char* name) {
  if (pointer == nullptr) fail(ACL_ERROR_INVALID_PARAM, "%s is null", name);
}

// Sets the thread's recent message to "<call>: <text>" and logs it. Returns the code.
int report(const char* call, int code, const char* text) noexcept;

// Refuses a call in a forked child or after exit began.
int refuse(const char* call) noexcept;

// ANYCEND_FAULT: the status that this call is to return instead of doing anything, already reported; or 0.
int struck(const char* call) noexcept;
// The same where the call needs another device than the thread's; -1: none.
int struck(const char* call, int device) noexcept;

// aclGetRecentErrMsg: the message is consumed; the pointer lives until the thread's next call of it. Never null.
const char* take_recent_message() noexcept;

// The thread's last status but 0, as aclrtGetLastError tells it. report and refuse set it.
int last_error() noexcept;
void set_last_error(int code) noexcept;

// Runs the body of one exported function. No exception crosses the C ABI.
template <class Body>
inline int guarded(const char* call, Body&& body) noexcept {
  if (__builtin_expect(life() != Life::kRunning, 0)) return refuse(call);
  if (sanitize::faulty())
    if (const int code = struck(call)) return code;
  try {
    body();
    return 0;
  } catch (const Error& error) {
    return report(call, error.code, error.message.c_str());
  } catch (const std::bad_alloc&) {
    return report(call, ACL_ERROR_BAD_ALLOC, "the host is out of memory");
  } catch (const std::exception& error) {
    return report(call, ACL_ERROR_INTERNAL_ERROR, error.what());
  } catch (...) {
    return report(call, ACL_ERROR_INTERNAL_ERROR, "internal error");
  }
}

// For what must work in a forked child and at exit (device count, versions): no check of the process's life, no lock inside.
template <class Body>
inline int guarded_always(const char* call, Body&& body) noexcept {
  if (sanitize::faulty())
    if (const int code = struck(call)) return code;
  try {
    body();
    return 0;
  } catch (const Error& error) {
    return report(call, error.code, error.message.c_str());
  } catch (const std::exception& error) {
    return report(call, ACL_ERROR_INTERNAL_ERROR, error.what());
  } catch (...) {
    return report(call, ACL_ERROR_INTERNAL_ERROR, "internal error");
  }
}

}  // namespace softnpu
