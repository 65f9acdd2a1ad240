#include "csrc/core/options.h"

#include <c10/util/Exception.h>

#include <cerrno>
#include <cstdlib>
#include <limits>

namespace npu {
namespace {

int64_t integer(const char* name, int64_t fallback, int64_t low, int64_t high, const char* meaning) {
  const char* text = std::getenv(name);
  if (!text || !*text) return fallback;
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text, &end, 10);
  TORCH_CHECK_VALUE(*end == '\0' && errno == 0 && value >= low && value <= high, "npu: the environment variable ", name,
                    "=", text, " is not valid: ", meaning, ". Correct it or unset it");
  return value;
}

bool flag(const char* name, bool fallback) { return integer(name, fallback, 0, 1, "it must be 0 or 1") != 0; }

Options read() {
  Options o;
  integer("TASK_QUEUE_ENABLE", 1, 0, 2, "it must be 0, 1 or 2");  // checked alone: this plugin's streams are the queue
  o.launch_blocking = flag("ASCEND_LAUNCH_BLOCKING", false);
  o.streams_per_device = static_cast<int>(integer("STREAMS_PER_DEVICE", 32, 8, 32, "it must be 8 or 32"));
  TORCH_CHECK_VALUE(o.streams_per_device == 8 || o.streams_per_device == 32,
                    "npu: the environment variable STREAMS_PER_DEVICE=", o.streams_per_device,
                    " is not valid: it must be 8 or 32. Correct it or unset it");
  o.memory_caching = !flag("PYTORCH_NO_NPU_MEMORY_CACHING", false);
  constexpr int64_t most_seconds = std::numeric_limits<int32_t>::max() / 1000;
  const int64_t seconds = integer("ACL_DEVICE_SYNC_TIMEOUT", -1, -1, most_seconds,
                                  "it must be a number of seconds up to 2147483; 0 and -1 wait for ever");
  o.device_sync_timeout = seconds > 0 ? static_cast<int32_t>(seconds * 1000) : -1;
  o.stream_sync_timeout =
      static_cast<int32_t>(integer("ACL_STREAM_TIMEOUT", -1, -1, std::numeric_limits<int32_t>::max(),
                                   "it must be a number of milliseconds; 0 and -1 wait for ever"));
  // When operators by name are made ready: the software NPU has none, so that the value is only checked.
  integer("ACL_OP_INIT_MODE", 1, 0, 2, "it must be 0, 1 or 2");
  o.forbid_fallback = flag("TORCH_NPU_FALLBACK_CPU_DISABLE", false);
  if (const char* path = std::getenv("TORCH_ACL_INIT_CONFIG_PATH")) o.acl_config = path;
  return o;
}

}  // namespace

const Options& options() {
  static const Options* const read_once = new Options(read());  // leaked: read until the process is gone
  return *read_once;
}

}  // namespace npu
