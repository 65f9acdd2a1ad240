// See check.h.
#include "csrc/distributed/check.h"

#include <c10/util/Exception.h>

#include <string>

#include "csrc/cann/api.h"
#include "csrc/cann/error.h"

namespace npu::distributed {
namespace {

const char* name_of(HcclResult result) {
  const auto& api = cann::hccl();
  return api.HcclGetErrorString ? api.HcclGetErrorString(result) : "HcclResult";
}

}  // namespace

void throw_hccl(HcclResult result, const char* expression) { throw_hccl(result, expression, cann::recent_message()); }

void throw_hccl(HcclResult result, const char* expression, const std::string& message) {
  std::string function(expression);
  const size_t at = function.find("Hccl");
  if (at != std::string::npos)
    function = function.substr(
        at, function.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", at) - at);
  C10_THROW_ERROR(DistBackendError, c10::str("npu: ", function, " failed (returned ", static_cast<int>(result), " ",
                                             name_of(result), "): ", message));
}

void throw_missing(const char* symbol) {
  C10_THROW_ERROR(NotImplementedError, c10::str("npu: this CANN's libhccl.so has no ", symbol));
}

}  // namespace npu::distributed
