// Functions of libascendcl that few programs need: a function of the host as a stream's work, and the time that an operator may take.
// Looked up at their first use. Who calls it: csrc/ops/npu (report, time_limit).
#pragma once

#include "acl/api.h"
#include "csrc/cann/export.h"

namespace cann {

// Null where the chosen libascendcl exports none. Both load it; they throw as acl() does.
NPU_API decltype(&::aclrtLaunchHostFunc) host_function_launcher();
NPU_API decltype(&::aclrtSetOpExecuteTimeOutWithMs) operator_limit_setter();

}  // namespace cann
