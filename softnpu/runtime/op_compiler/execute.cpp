// libacl_op_compiler.so: operators called by name. There are none; each call names the operator it was asked for.
#include <string>

#include "acl/api.h"
#include "softnpu/runtime/enqueue.h"

#define SOFTNPU_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

aclError refuse(const char* call, const char* type) {
  const std::string text = type
                               ? std::string(call) + ": not supported by the software NPU: " + type +
                                     " (an operator called by name; ANYCEND_SOC=Ascend950 makes clients use aclnn only)"
                               : std::string(call) + ": opType is null";
  softnpu::set_error_message(text.c_str());
  return type ? ACL_ERROR_FEATURE_UNSUPPORTED : ACL_ERROR_INVALID_PARAM;
}

}  // namespace

SOFTNPU_EXPORT aclError aclopCompile(const char* opType, int, const aclTensorDesc**, int, const aclTensorDesc**,
                                     const aclopAttr*, aclopEngineType, aclopCompileType, const char*) {
  return refuse(__func__, opType);
}

SOFTNPU_EXPORT aclError aclopCompileAndExecute(const char* opType, int, const aclTensorDesc**, const aclDataBuffer**,
                                               int, const aclTensorDesc**, const aclDataBuffer**, const aclopAttr*,
                                               aclopEngineType, aclopCompileType, const char*, aclrtStream) {
  return refuse(__func__, opType);
}

SOFTNPU_EXPORT aclError aclopCompileAndExecuteV2(const char* opType, int, aclTensorDesc**, aclDataBuffer**, int,
                                                 aclTensorDesc**, aclDataBuffer**, aclopAttr*, aclopEngineType,
                                                 aclopCompileType, const char*, aclrtStream) {
  return refuse(__func__, opType);
}
