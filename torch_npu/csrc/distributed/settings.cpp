// See settings.h.
#include "csrc/distributed/settings.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>

namespace npu::distributed {
namespace {

// One digit: PyTorch's TORCH_NCCL_ASYNC_ERROR_HANDLING has 2 and 3 as well, which are kinds of "on".
bool flag(const char* name, const char* old_name, bool otherwise) {
  const char* value = std::getenv(name);
  if (!value) value = std::getenv(old_name);
  if (!value || !*value) return otherwise;
  TORCH_CHECK_VALUE(*value >= '0' && *value <= '3' && !value[1], name, "=", value, ": it must be 0 (off) or 1 (on)");
  return *value != '0';
}

// The library reads it, too, and refuses what is no number.
std::chrono::seconds seconds(const char* name, unsigned long otherwise) {
  const char* value = std::getenv(name);
  return std::chrono::seconds(value && *value ? std::strtoul(value, nullptr, 10) : otherwise);
}

size_t size_of(const char* name, const char* other_name) {
  const char* value = std::getenv(name);
  if (!value || !*value) value = std::getenv(other_name);
  if (!value || !*value) return 0;
  char* end = nullptr;
  const unsigned long long number = std::strtoull(value, &end, 10);
  TORCH_CHECK_VALUE(*end == 0 && *value != '-', name, "=", value, " is not a number of calls");
  return number;
}

std::string text(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

}  // namespace

const Settings& settings() {
  static const Settings the{flag("TORCH_HCCL_BLOCKING_WAIT", "HCCL_BLOCKING_WAIT", false),
                            flag("TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING", true),
                            seconds("HCCL_EXEC_TIMEOUT", 0),
                            seconds("HCCL_CONNECT_TIMEOUT", 120),
                            flag("TORCH_HCCL_HIGH_PRIORITY", "TORCH_HCCL_HIGH_PRIORITY", false),
                            size_of("TORCH_HCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"),
                            flag("TORCH_HCCL_TRACE_CPP_STACK", "TORCH_FR_CPP_STACK", false),
                            flag("TORCH_HCCL_DUMP_ON_TIMEOUT", "TORCH_FR_DUMP_ON_TIMEOUT", false),
                            text("TORCH_HCCL_DEBUG_INFO_TEMP_FILE", "/tmp/hccl_trace_rank_")};
  return the;
}

}  // namespace npu::distributed
