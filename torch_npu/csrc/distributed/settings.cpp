// See settings.h.
#include "csrc/distributed/settings.h"

#include <cstdlib>
#include <cstring>

namespace npu::distributed {
namespace {

bool flag(const char* name, const char* old_name, bool otherwise) {
  const char* value = std::getenv(name);
  if (!value) value = std::getenv(old_name);
  return value && *value ? std::strcmp(value, "0") != 0 : otherwise;
}

}  // namespace

const Settings& settings() {
  static const Settings the{flag("TORCH_HCCL_BLOCKING_WAIT", "HCCL_BLOCKING_WAIT", false),
                            flag("TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING", true)};
  return the;
}

}  // namespace npu::distributed
