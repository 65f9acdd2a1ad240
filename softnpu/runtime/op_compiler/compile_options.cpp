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
    value[ACL_OP_COMPILER_CACHE_MODE] = "disable";
    value[ACL_ALLOW_HF32] = "10";
    value[ACL_OP_DEBUG_LEVEL] = "0";
  }
};
Options& options() {
  static Options& o = *new Options;
  return o;
}

// Determinism has other setters, so that it is kept where the kernels look (settings.h).
std::string value_of(aclCompileOpt option) {
  if (option == ACL_OP_DETERMINISTIC) return softnpu::settings().deterministic ? "1" : "0";
  std::lock_guard lock(options().mutex);
  return options().value[option];
}

int refuse(const char* text, int code = ACL_ERROR_INVALID_PARAM) {
  softnpu::set_error_message(text);
  return code;
}

// Options with a list of values. The precision modes are the compiler's: kernels called through aclnn keep their types under
// every one of them, on the hardware too.
struct Values {
  aclCompileOpt option;
  const char* name;
  std::initializer_list<const char*> known;
};
const Values kValues[] = {
    {ACL_PRECISION_MODE,
     "ACL_PRECISION_MODE",
     {"force_fp16", "force_fp32", "allow_fp32_to_fp16", "must_keep_origin_dtype", "allow_mix_precision",
      "allow_mix_precision_fp16", "allow_mix_precision_bf16", "cube_fp16in_fp32out"}},
    {ACL_PRECISION_MODE_V2,
     "ACL_PRECISION_MODE_V2",
     {"fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16", "mixed_hif8", "cube_hif8"}},
    {ACL_OP_SELECT_IMPL_MODE,
     "ACL_OP_SELECT_IMPL_MODE",
     {"high_performance", "high_precision", "high_performance_for_all", "high_precision_for_all"}},
    {ACL_OP_JIT_COMPILE, "ACL_OP_JIT_COMPILE", {"enable", "disable"}},
    {ACL_OP_DETERMINISTIC, "ACL_OP_DETERMINISTIC", {"0", "1"}},
    // Leave to compute convolutions, then products, in fewer bits: kernels here keep float32, which it allows.
    {ACL_ALLOW_HF32, "ACL_ALLOW_HF32", {"00", "01", "10", "11"}},
    {ACL_OP_COMPILER_CACHE_MODE, "ACL_OP_COMPILER_CACHE_MODE", {"enable", "disable", "force"}},
};

// What is wrong with the value, or nothing. An empty one is the default: the vendor's torch_npu sets options so.
std::string complaint(aclCompileOpt option, const char* value) {
  if (*value == '\0') return {};
  for (const Values& row : kValues) {
    if (row.option != option) continue;
    std::string names;
    for (const char* each : row.known) {
      if (strcmp(value, each) == 0) return {};
      names += (names.empty() ? "" : ", ") + std::string(each);
    }
    return std::string("aclSetCompileopt: ") + row.name + " is one of " + names + ", not \"" + value + "\"";
  }
  return {};
}

}  // namespace

SOFTNPU_EXPORT size_t aclGetCompileoptSize(aclCompileOpt opt) {
  if (unsigned(opt) >= kOptions) return 0;
  return value_of(opt).size() + 1;
}

SOFTNPU_EXPORT aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
  if (unsigned(opt) >= kOptions) return refuse("aclGetCompileopt: no such option");
  if (value == nullptr) return refuse("aclGetCompileopt: value is null");
  const std::string v = value_of(opt);
  if (length < v.size() + 1) return refuse("aclGetCompileopt: the buffer is too small (aclGetCompileoptSize)");
  memcpy(value, v.c_str(), v.size() + 1);
  return ACL_SUCCESS;
}

// Most say how a compiler may go about its work, and whatever it may do the software NPU's kernels do without. What asks for
// something else works or is refused.
SOFTNPU_EXPORT aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  if (unsigned(opt) >= kOptions) return refuse("aclSetCompileopt: no such option");
  if (value == nullptr) return refuse("aclSetCompileopt: value is null");
  if (const std::string wrong = complaint(opt, value); !wrong.empty()) return refuse(wrong.c_str());
  if (opt == ACL_OP_JIT_COMPILE && strcmp(value, "enable") == 0)
    return refuse("aclSetCompileopt: the software NPU has no compiler, so that ACL_OP_JIT_COMPILE is always disable",
                  ACL_ERROR_FEATURE_UNSUPPORTED);
  if (opt == ACL_OP_DETERMINISTIC) {
    if (*value) softnpu::settings().deterministic = *value == '1';
    return ACL_SUCCESS;
  }
  if ((opt == ACL_OP_DEBUG_LEVEL && strcmp(value, "0") != 0) || (opt == ACL_OP_DEBUG_OPTION && *value))
    return refuse("aclSetCompileopt: the software NPU compiles nothing, so that there is nothing to debug",
                  ACL_ERROR_FEATURE_UNSUPPORTED);
  std::lock_guard lock(options().mutex);
  options().value[opt] = value;
  return ACL_SUCCESS;
}

// Whether kernels are compiled for one shape or for all of them: those here take every shape.
SOFTNPU_EXPORT aclError aclopSetCompileFlag(aclOpCompileFlag flag) {
  if (flag != ACL_OP_COMPILE_DEFAULT && flag != ACL_OP_COMPILE_FUZZ)
    return refuse("aclopSetCompileFlag: flag is ACL_OP_COMPILE_DEFAULT or ACL_OP_COMPILE_FUZZ");
  return ACL_SUCCESS;
}
