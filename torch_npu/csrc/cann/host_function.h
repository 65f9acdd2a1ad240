// Functions of libascendcl that few programs need: a function of the host as a stream's work, and the time that an operator may take.
// Looked up at their first use. Who calls it: csrc/ops/npu (report, time_limit), csrc/python (host_function).
#pragma once

#include "acl/api.h"
#include "csrc/cann/export.h"

namespace cann {

// Null where the chosen libascendcl exports none. Both load it; they throw as acl() does.
NPU_API decltype(&::aclrtLaunchHostFunc) host_function_launcher();
NPU_API decltype(&::aclrtSetOpExecuteTimeOutWithMs) operator_limit_setter();

// Functions that a client's own thread runs for the streams it is subscribed to.
struct ReportFunctions {
  decltype(&::aclrtLaunchCallback) launch = nullptr;
  decltype(&::aclrtSubscribeReport) subscribe = nullptr;
  decltype(&::aclrtUnSubscribeReport) unsubscribe = nullptr;
  decltype(&::aclrtProcessReport) process = nullptr;
};
// Throws where the chosen libascendcl lacks one.
NPU_API const ReportFunctions& report_functions();

}  // namespace cann
