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

// The library reads it, too, and refuses what is no number.
std::chrono::seconds seconds(const char* name) {
  const char* value = std::getenv(name);
  return std::chrono::seconds(value ? std::strtoul(value, nullptr, 10) : 0);
}

}  // namespace

const Settings& settings() {
  static const Settings the{flag("TORCH_HCCL_BLOCKING_WAIT", "HCCL_BLOCKING_WAIT", false),
                            flag("TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING", true),
                            seconds("HCCL_EXEC_TIMEOUT")};
  return the;
}

}  // namespace npu::distributed
