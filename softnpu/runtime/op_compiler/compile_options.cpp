// libacl_op_compiler.so: compile options. Nothing is compiled here; clients ask whether just-in-time compilation is off.
#include <cstring>
#include <mutex>
#include <string>

#include "acl/api.h"
#include "softnpu/runtime/enqueue.h"

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

int refuse(const char* text) {
  softnpu::set_error_message(text);
  return ACL_ERROR_INVALID_PARAM;
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

// Kept and answered; only jit_compile cannot be turned on.
SOFTNPU_EXPORT aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  if (unsigned(opt) >= kOptions) return refuse("aclSetCompileopt: no such option");
  if (value == nullptr) return refuse("aclSetCompileopt: value is null");
  if (opt == ACL_OP_JIT_COMPILE && strcmp(value, "enable") == 0) return ACL_SUCCESS;
  std::lock_guard lock(options().mutex);
  options().value[opt] = value;
  return ACL_SUCCESS;
}

SOFTNPU_EXPORT aclError aclopSetCompileFlag(aclOpCompileFlag flag) { return ACL_SUCCESS; }
