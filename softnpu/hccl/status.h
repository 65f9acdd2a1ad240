// How this room fails: inside it throws Error; each exported function goes through guarded(), which turns it into an HcclResult
// and the thread's recent error message. What it is not: the communicator's asynchronous error (communicator.h).
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "hccl/types.h"
#include "softnpu/hccl/fork.h"
#include "softnpu/runtime/enqueue.h"

namespace softnpu::hccl {

struct Error {
  HcclResult code;
  std::string text;
};

[[noreturn]] void fail(HcclResult code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// "HCCL_E_REMOTE" for a number.
const char* code_name(HcclResult code) noexcept;

// Leaves "<function> returned <name>: <text>" as the calling thread's recent error message.
void report(const char* function, HcclResult code, const char* text) noexcept;

// What is done for a call that was taken, later or once more: no call by itself, so that ANYCEND_FAULT does not count it.
template <class Body>
HcclResult caught(const char* function, Body&& body) noexcept {
  try {
    if (forked()) fail(HCCL_E_UNAVAIL, "this process was forked from one that uses HCCL; start it with spawn or exec");
    body();
    return HCCL_SUCCESS;
  } catch (const Error& error) {
    report(function, error.code, error.text.c_str());
    return error.code;
  } catch (const std::bad_alloc&) {
    report(function, HCCL_E_MEMORY, "out of host memory");
    return HCCL_E_MEMORY;
  } catch (const std::exception& error) {
    report(function, HCCL_E_INTERNAL, error.what());
    return HCCL_E_INTERNAL;
  }
}

// The body of one exported function.
template <class Body>
HcclResult guarded(const char* function, Body&& body) noexcept {
  if (faults_asked())
    if (const int code = fault_of_call(function)) return code < 1000 ? HcclResult(code) : HCCL_E_RUNTIME;
  return caught(function, std::forward<Body>(body));
}

}  // namespace softnpu::hccl
