// A status of CANN becomes the exception of PyTorch's that fits: OutOfMemoryError, NotImplementedError, RuntimeError for an
// argument the library refused, AcceleratorError for the rest. The text is
//     npu: aclrtMemcpyAsync failed (returned 507899 ACL_ERROR_RT_DRV_INTERNAL_ERROR): <the library's recent message>
//
//     NPU_CHECK(cann::acl().aclrtSynchronizeStream(stream));   throws
//     NPU_WARN(cann::acl().aclrtDestroyEvent(event));          warns: destructors, noexcept
#pragma once

#include "csrc/cann/export.h"

namespace cann {

// `symbol` + `phase` is the function's name. Reads and clears the calling thread's recent message. Any thread.
[[noreturn]] NPU_API void throw_status(int status, const char* symbol, const char* phase = "");

// "ACL_ERROR_RT_PARAM_INVALID", or "unknown status".
NPU_API const char* status_name(int status) noexcept;

// CANN had no memory of the device, or of the host, to give.
NPU_API bool is_out_of_memory(int status) noexcept;

// Whether an exception of throw_status has told of what the message says behind the name of the function that said it. Of the last few.
NPU_API bool was_told(const char* message) noexcept;

// The calling thread's recent message of the library as UTF-8, "" if there is none. Clears it. Good until the thread's next call.
NPU_API const char* recent_message() noexcept;

namespace detail {
// `expression` is the call as written: its function's name is found in it.
[[noreturn]] NPU_API void throw_call(int status, const char* expression);
NPU_API void warn_call(int status, const char* expression) noexcept;
}  // namespace detail

}  // namespace cann

#define NPU_CHECK(expression)                                                          \
  do {                                                                                 \
    if (const int npu_status_ = (expression); __builtin_expect(npu_status_ != 0, 0)) { \
      ::cann::detail::throw_call(npu_status_, #expression);                            \
    }                                                                                  \
  } while (false)

#define NPU_WARN(expression)                                                           \
  do {                                                                                 \
    if (const int npu_status_ = (expression); __builtin_expect(npu_status_ != 0, 0)) { \
      ::cann::detail::warn_call(npu_status_, #expression);                             \
    }                                                                                  \
  } while (false)
