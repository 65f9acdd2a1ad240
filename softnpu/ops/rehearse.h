// Whether a kernel takes the numbers it is given: see rehearse.cpp. Who calls it: Plan, in phase one. What it is not: the run.
#pragma once

#include <cstring>

#include "softnpu/nnopbase/executor.h"

namespace softnpu::ops {

class Plan;
struct Op;

// Whether a number fits every type and promotes none: then there is no question.
inline bool ordinary(const nnopbase::ScalarCopy& s) {
  if (s.dtype != ACL_INT64 && s.dtype != ACL_BOOL) return false;
  if (s.dtype == ACL_BOOL) return true;
  int64_t value = 0;
  std::memcpy(&value, s.value, sizeof value);
  return value >= -127 && value <= 127;
}

// False: the plan has failed with what the kernel says.
bool rehearse(Plan& plan, const Op& op, const aclOpExecutor& executor);

}  // namespace softnpu::ops
