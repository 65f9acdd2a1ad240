// Exports of what clients set, and ask back: system parameters, the overflow mode, time limits. Each is obeyed (settings.h says by
// whom) or refused with its name; a value that asks for nothing, such as 0, is taken. What it is not: aclInit's file (init_file.h)
// or compile options (op_compiler/).
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "acl/api.h"
#include "softnpu/runtime/context.h"
#include "softnpu/runtime/error.h"
#include "softnpu/runtime/settings.h"

using namespace softnpu;

namespace {

constexpr unsigned kSysParams = 4;

void check_sys_param(aclSysParamOpt opt) {
  if (unsigned(opt) >= kSysParams) fail(ACL_ERROR_INVALID_PARAM, "%d is not a system parameter", int(opt));
}

// Determinism is the process's: contexts share the kernels' threads. The others ask for nothing that the software NPU has.
void set_sys_param(aclSysParamOpt opt, int64_t value) {
  check_sys_param(opt);
  if (opt == ACL_OPT_DETERMINISTIC) {
    if (value != 0 && value != 1)
      fail(ACL_ERROR_INVALID_PARAM, "ACL_OPT_DETERMINISTIC is 0 or 1, not %lld", static_cast<long long>(value));
    settings().deterministic = value == 1;
  } else if (value != 0) {
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "system parameter %d cannot be turned on in the software NPU", int(opt));
  }
}

int64_t sys_param(aclSysParamOpt opt) {
  check_sys_param(opt);
  return opt == ACL_OPT_DETERMINISTIC && settings().deterministic;
}

void set_operator_limit(uint64_t units, int64_t ns_a_unit) {
  const int64_t limit = limit_of(units, ns_a_unit);
  settings().operator_limit_ns = limit;
  if (limit != 0) sanitize::watch(sanitize::kLimit);
}

}  // namespace

SOFTNPU_EXPORT aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return guarded(__func__, [&] { set_sys_param(opt, value); });
}

SOFTNPU_EXPORT aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    *value = sys_param(opt);
  });
}

SOFTNPU_EXPORT aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return guarded(__func__, [&] {
    current_context();
    set_sys_param(opt, value);
  });
}

SOFTNPU_EXPORT aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return guarded(__func__, [&] {
    need(value, "value");
    current_context();
    *value = sys_param(opt);
  });
}

SOFTNPU_EXPORT aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  return guarded(__func__, [&] {
    if (unsigned(mode) > ACL_RT_OVERFLOW_MODE_INFNAN)
      fail(ACL_ERROR_INVALID_PARAM, "%d is not an overflow mode", int(mode));
    if (mode == ACL_RT_OVERFLOW_MODE_SATURATION)
      fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
           "saturation mode is not supported by the software NPU: it computes INF and NAN");
    current_context().overflow_mode() = int(mode);
  });
}

SOFTNPU_EXPORT aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
  return guarded(__func__, [&] {
    need(mode, "mode");
    *mode = aclrtFloatOverflowMode(current_context().overflow_mode().load());
  });
}

// Seconds that a stream waits for an event; 0: for ever.
SOFTNPU_EXPORT aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
  return guarded(__func__, [&] { settings().wait_limit_ns = limit_of(timeout, 1'000'000'000); });
}

// Seconds, milliseconds, microseconds that an operator may take; 0: any time.
SOFTNPU_EXPORT aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
  return guarded(__func__, [&] { set_operator_limit(timeout, 1'000'000'000); });
}

SOFTNPU_EXPORT aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
  return guarded(__func__, [&] { set_operator_limit(timeout, 1'000'000); });
}

SOFTNPU_EXPORT aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  return guarded(__func__, [&] {
    set_operator_limit(timeout, 1000);
    if (actualTimeout) *actualTimeout = uint64_t(operator_limit_ns()) / 1000;
  });
}

SOFTNPU_EXPORT aclError aclrtGetOpExecuteTimeout(const uint32_t* timeoutMs) {
  return guarded(__func__, [&] {
    need(timeoutMs, "timeoutMs");
    *const_cast<uint32_t*>(timeoutMs) = uint32_t(std::min<int64_t>(operator_limit_ns() / 1'000'000, UINT32_MAX));
  });
}

SOFTNPU_EXPORT aclError aclrtGetOpTimeOutInterval(uint64_t* interval) {
  return guarded(__func__, [&] {
    need(interval, "interval");
    *interval = 1;
  });
}
