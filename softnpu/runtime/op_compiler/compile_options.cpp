// libacl_op_compiler.so: compile options. Nothing is compiled here; clients ask whether just-in-time compilation is off.
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <string>

#include "acl/api.h"
#include "softnpu/runtime/enqueue.h"
#include "softnpu/runtime/settings.h"

#define SOFTNPU_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kOptions = 17;

struct Options {
  std::mutex mutex;
  std::string value[kOptions];
  Options() {
    value[ACL_PRECISION_MODE] = "allow_fp32_to_fp16";
    value[ACL_OP_JIT_COMPILE] = "disable";
    value[ACL_OP_DETERMINISTIC] = "0";
    value[ACL_OP_COMPILER_CACHE_MODE] = "disable";
    value[ACL_ALLOW_HF32] = "10";
    value[ACL_OP_DEBUG_LEVEL] = "0";
  }
};
Options& options() {
  static Options& o = *new Options;
  return o;
}

int refuse(const char* text, int code = ACL_ERROR_INVALID_PARAM) {
  softnpu::set_error_message(text);
  return code;
}

bool one_of(const char* value, std::initializer_list<const char*> known) {
  for (const char* each : known)
    if (strcmp(value, each) == 0) return true;
  return false;
}

}  // namespace

SOFTNPU_EXPORT size_t aclGetCompileoptSize(aclCompileOpt opt) {
  if (unsigned(opt) >= kOptions) return 0;
  std::lock_guard lock(options().mutex);
  return options().value[opt].size() + 1;
}

SOFTNPU_EXPORT aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
  if (unsigned(opt) >= kOptions) return refuse("aclGetCompileopt: no such option");
  if (value == nullptr) return refuse("aclGetCompileopt: value is null");
  std::lock_guard lock(options().mutex);
  const std::string& v = options().value[opt];
  if (length < v.size() + 1) return refuse("aclGetCompileopt: the buffer is too small (aclGetCompileoptSize)");
  memcpy(value, v.c_str(), v.size() + 1);
  return ACL_SUCCESS;
}

// Most say how a compiler may go about its work, and whatever it may do the software NPU's kernels do without. What asks for
// something else works or is refused.
SOFTNPU_EXPORT aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  if (unsigned(opt) >= kOptions) return refuse("aclSetCompileopt: no such option");
  if (value == nullptr) return refuse("aclSetCompileopt: value is null");
  if (opt == ACL_OP_JIT_COMPILE && !one_of(value, {"enable", "disable"}))
    return refuse("aclSetCompileopt: ACL_OP_JIT_COMPILE is enable or disable");
  if (opt == ACL_OP_JIT_COMPILE && strcmp(value, "enable") == 0)
    return refuse("aclSetCompileopt: the software NPU has no compiler, so that ACL_OP_JIT_COMPILE is always disable",
                  ACL_ERROR_FEATURE_UNSUPPORTED);
  if (opt == ACL_OP_DETERMINISTIC) {
    if (!one_of(value, {"0", "1"})) return refuse("aclSetCompileopt: ACL_OP_DETERMINISTIC is 0 or 1");
    softnpu::settings().deterministic = *value == '1';
  }
  if (opt == ACL_OP_COMPILER_CACHE_MODE && !one_of(value, {"enable", "disable", "force"}))
    return refuse("aclSetCompileopt: ACL_OP_COMPILER_CACHE_MODE is enable, disable or force");
  if ((opt == ACL_OP_DEBUG_LEVEL && strcmp(value, "0") != 0) || (opt == ACL_OP_DEBUG_OPTION && *value))
    return refuse("aclSetCompileopt: the software NPU compiles nothing, so that there is nothing to debug",
                  ACL_ERROR_FEATURE_UNSUPPORTED);
  std::lock_guard lock(options().mutex);
  options().value[opt] = value;
  return ACL_SUCCESS;
}

SOFTNPU_EXPORT aclError aclopSetCompileFlag(aclOpCompileFlag flag) { return ACL_SUCCESS; }
