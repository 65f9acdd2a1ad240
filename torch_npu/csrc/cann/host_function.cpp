#include "csrc/cann/host_function.h"

#include <c10/util/Exception.h>

#include <type_traits>

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

const ReportFunctions& report_functions() {
  static const ReportFunctions all = [] {
    ReportFunctions found;
    const auto find = [](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(find_symbol(open_library("ascendcl"), name));
      TORCH_CHECK_NOT_IMPLEMENTED(function, "npu: this CANN runs no functions of the host (", name,
                                  " is missing): install a newer one");
    };
    find(found.launch, "aclrtLaunchCallback");
    find(found.subscribe, "aclrtSubscribeReport");
    find(found.unsubscribe, "aclrtUnSubscribeReport");
    find(found.process, "aclrtProcessReport");
    return found;
  }();
  return all;
}

}  // namespace cann
