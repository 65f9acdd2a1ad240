// See settings.h.
#include "csrc/distributed/settings.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>

namespace npu::distributed {
namespace {

// The variable and its value; `old_name`'s where `name` is not set or empty.
struct Variable {
  explicit Variable(const char* name, const char* old_name = nullptr) : name(name), value(std::getenv(name)) {
    if (given() || !old_name) return;
    this->name = old_name;
    value = std::getenv(old_name);
  }
  bool given() const { return value && *value; }
  const char* name;
  const char* value;
};

// One digit: PyTorch's TORCH_NCCL_ASYNC_ERROR_HANDLING has 2 and 3 as well, which are kinds of "on".
bool flag(const Variable& from, bool otherwise) {
  if (!from.given()) return otherwise;
  TORCH_CHECK_VALUE(*from.value >= '0' && *from.value <= '3' && !from.value[1], from.name, "=", from.value,
                    ": it must be 0 (off) or 1 (on)");
  return *from.value != '0';
}

// The library reads it, too, and refuses what is no number.
std::chrono::seconds seconds(const Variable& from, unsigned long otherwise) {
  return std::chrono::seconds(from.given() ? std::strtoul(from.value, nullptr, 10) : otherwise);
}

size_t size_of(const Variable& from) {
  if (!from.given()) return 0;
  char* end = nullptr;
  const unsigned long long number = std::strtoull(from.value, &end, 10);
  TORCH_CHECK_VALUE(*end == 0 && *from.value != '-', from.name, "=", from.value, " is not a number of calls");
  return number;
}

std::string text(const Variable& from, const char* otherwise) { return from.given() ? from.value : otherwise; }

}  // namespace

const Settings& settings() {
  static const Settings the{
      flag(Variable("TORCH_HCCL_BLOCKING_WAIT", "HCCL_BLOCKING_WAIT"), false),
      flag(Variable("TORCH_HCCL_ASYNC_ERROR_HANDLING", "HCCL_ASYNC_ERROR_HANDLING"), true),
      seconds(Variable("HCCL_EXEC_TIMEOUT"), 0),
      seconds(Variable("HCCL_CONNECT_TIMEOUT"), 120),  // docs/env.yaml's, as in softnpu/hccl/settings.h
      flag(Variable("TORCH_HCCL_HIGH_PRIORITY"), false),
      size_of(Variable("TORCH_HCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE")),
      flag(Variable("TORCH_HCCL_TRACE_CPP_STACK", "TORCH_FR_CPP_STACK"), false),
      flag(Variable("TORCH_HCCL_DUMP_ON_TIMEOUT", "TORCH_FR_DUMP_ON_TIMEOUT"), false),
      text(Variable("TORCH_HCCL_DEBUG_INFO_TEMP_FILE"), "/tmp/hccl_trace_rank_")};
  return the;
}

}  // namespace npu::distributed
