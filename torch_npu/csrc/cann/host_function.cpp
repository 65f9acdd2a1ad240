#include "csrc/cann/host_function.h"

#include "csrc/cann/library.h"

namespace cann {

decltype(&::aclrtLaunchHostFunc) host_function_launcher() {
  static const auto found =
      reinterpret_cast<decltype(&::aclrtLaunchHostFunc)>(find_symbol(open_library("ascendcl"), "aclrtLaunchHostFunc"));
  return found;
}

decltype(&::aclrtSetOpExecuteTimeOutWithMs) operator_limit_setter() {
  static const auto found = reinterpret_cast<decltype(&::aclrtSetOpExecuteTimeOutWithMs)>(
      find_symbol(open_library("ascendcl"), "aclrtSetOpExecuteTimeOutWithMs"));
  return found;
}

}  // namespace cann
