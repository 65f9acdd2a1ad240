#include "csrc/core/options.h"

#include <c10/util/Exception.h>

#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

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

// One of the words, or unset.
void word(const char* name, std::initializer_list<std::string_view> words, const char* meaning) {
  const char* text = std::getenv(name);
  if (!text || !*text) return;
  bool known = false;
  for (const std::string_view one : words) known = known || one == text;
  TORCH_CHECK_VALUE(known, "npu: the environment variable ", name, "=", text, " is not valid: ", meaning,
                    ". Correct it or unset it");
}

// key:value,key:value with these keys.
void pairs(const char* name, std::initializer_list<std::string_view> keys, const char* meaning) {
  const char* text = std::getenv(name);
  std::istringstream parts(text ? text : "");
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t colon = part.find(':');
    bool known = false;
    for (const std::string_view key : keys) known = known || key == part.substr(0, colon);
    TORCH_CHECK_VALUE(known && colon != part.npos && colon + 1 < part.size(), "npu: the environment variable ", name,
                      "=", text, " is not valid at '", part, "': ", meaning, ". Correct it or unset it");
  }
}

// What the vendor's plugin or CANN has for speed or for its hardware. A wrong value is an error, as there; a right one has no effect:
// docs/tuning.md says why of each. Those that would change results, or ask for what is not done, are a warning of import (_hints.py).
void check_those_without_effect() {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  const char* const whole = "it must be a whole number from 0 on";
  const char* const switched = "it must be 0 or 1";
  integer("TASK_QUEUE_ENABLE", 1, 0, 2, "it must be 0, 1 or 2");
  integer("PER_STREAM_QUEUE", 0, 0, 1, switched);
  integer("COMBINED_ENABLE", 0, 0, 1, switched);
  integer("MULTI_STREAM_MEMORY_REUSE", 1, 0, 3, "it must be 0, 1, 2 or 3");
  integer("HOST_CACHE_CAPACITY", 0, 0, most, whole);
  integer("ACLNN_CACHE_LIMIT", 0, 0, most, whole);
  integer("ACL_OP_INIT_MODE", 1, 0, 2, "it must be 0, 1 or 2");
  word("ACL_OP_COMPILER_CACHE_MODE", {"enable", "disable", "force"}, "it must be enable, disable or force");
  word("TORCH_NPU_LAZY_FUSION", {"True", "False", "true", "false", "1", "0"},
       "it must be True, False, true, false, 1 or 0");
  integer("INF_NAN_MODE_ENABLE", 1, 0, 1, switched);
  integer("INF_NAN_MODE_FORCE_DISABLE", 0, 0, 1, switched);
  integer("NPU_ASD_ENABLE", 0, 0, 3, "it must be 0, 1, 2 or 3");
  pairs("NPU_ASD_CONFIG",
        {"enable", "with_checksum", "cooldown", "strikes_num", "strikes_window", "checksum_cooldown", "upper_thresh1",
         "upper_thresh2", "grad_sample_interval"},
        "it must be key:value,key:value with the keys enable, with_checksum, cooldown, strikes_num, strikes_window, "
        "checksum_cooldown, upper_thresh1, upper_thresh2 and grad_sample_interval");
}

Options read() {
  Options o;
  check_those_without_effect();
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
