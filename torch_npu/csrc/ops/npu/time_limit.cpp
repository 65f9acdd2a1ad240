// How long an operator may take: CANN's limit, of the whole process. Who uses it: a row of ops/npu.yaml.
#include "csrc/cann/error.h"
#include "csrc/cann/host_function.h"
#include "csrc/core/lifecycle.h"
#include "csrc/ops/npu/report.h"

namespace npu::ops {

void limit_operators(int64_t timeout) {
  TORCH_CHECK_VALUE(timeout >= 0 && timeout <= UINT32_MAX, "set_op_timeout_ms: timeout is ", timeout,
                    "; it is in milliseconds, from 1 to 2**32 - 1, and 0 means without limit");
  initialize();
  const auto aclrtSetOpExecuteTimeOutWithMs = cann::operator_limit_setter();
  TORCH_CHECK_NOT_IMPLEMENTED(
      aclrtSetOpExecuteTimeOutWithMs,
      "set_op_timeout_ms: this CANN has no aclrtSetOpExecuteTimeOutWithMs; install a newer one");
  NPU_CHECK(aclrtSetOpExecuteTimeOutWithMs(static_cast<uint32_t>(timeout)));
}

}  // namespace npu::ops
