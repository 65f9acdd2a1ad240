// Status and recent error message in one call. What it is not: exceptions (nothing in nnopbase throws).
#pragma once

#include <cstdio>

#include "acl/types.h"
#include "softnpu/runtime/enqueue.h"

namespace nnopbase {

inline aclnnStatus report(aclnnStatus status, const char* text) {
  softnpu::set_error_message(text);
  return status;
}

// ANYCEND_FAULT: the status that this call is to return, or 0.
inline aclnnStatus struck(const char* function) {
  return softnpu::faults_asked() ? softnpu::fault_of_call(function) : 0;
}

inline std::nullptr_t report_null(const char* text) {
  softnpu::set_error_message(text);
  return nullptr;
}

inline aclnnStatus null_argument(const char* function, const char* parameter) {
  char text[160];
  std::snprintf(text, sizeof text, "%s: %s is null", function, parameter);
  return report(ACLNN_ERR_PARAM_NULLPTR, text);
}

inline aclnnStatus bad_handle(const char* function, const char* parameter) {
  char text[200];
  std::snprintf(text, sizeof text, "%s: %s is null, destroyed, or no handle of that type", function, parameter);
  return report(ACLNN_ERR_PARAM_INVALID, text);
}

}  // namespace nnopbase
