// A status of HCCL becomes c10::DistBackendError: `HCCL_CHECK(cann::hccl().HcclBroadcast(...))`.
// What it is not: a status of acl (csrc/cann/error.h).
#pragma once

#include <hccl/types.h>

#include <string>

namespace npu::distributed {

// `expression` is the call as written: its function's name is found in it.
[[noreturn]] void throw_hccl(HcclResult result, const char* expression);
// `message`: what CANN said to the thread that called.
[[noreturn]] void throw_hccl(HcclResult result, const char* expression, const std::string& message);

// Throws NotImplementedError where this CANN lacks an optional function.
[[noreturn]] void throw_missing(const char* symbol);

}  // namespace npu::distributed

#define HCCL_CHECK(expression)                                                                           \
  do {                                                                                                   \
    if (const HcclResult hccl_result_ = (expression); __builtin_expect(hccl_result_ != HCCL_SUCCESS, 0)) \
      ::npu::distributed::throw_hccl(hccl_result_, #expression);                                         \
  } while (false)

// For rows marked `plugin: optional`.
#define HCCL_OPTIONAL(symbol) \
  (::cann::hccl().symbol ? ::cann::hccl().symbol : (::npu::distributed::throw_missing(#symbol), nullptr))
