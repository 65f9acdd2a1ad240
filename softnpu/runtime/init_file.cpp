#include "softnpu/runtime/init_file.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "softnpu/runtime/config.h"
#include "softnpu/runtime/error.h"

namespace softnpu {
namespace {

using Json = nlohmann::json;

std::atomic<int> g_default_device{-1};

// Numbers are written as texts in CANN's examples.
int number(const Json& value, const char* key) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  char* end;
  long n = strtol(text.c_str(), &end, 10);
  if (text.empty() || *end || n < INT32_MIN || n > INT32_MAX)
    fail(ACL_ERROR_FILE_ATTR_INVALID, "%s: %s is not a number", key, text.c_str());
  return int(n);
}

void set_default_device(const Json& section) {
  if (!section.is_object() || section.size() != 1 || !section.contains("default_device"))
    fail(ACL_ERROR_FILE_ATTR_INVALID, "defaultDevice: it is {\"default_device\": \"<number>\"}");
  int device = number(section["default_device"], "default_device");
  need_device(device);
  g_default_device = device;
}

// An empty section asks for nothing.
bool asks_for_nothing(const Json& value) { return value.is_null() || (value.is_structured() && value.empty()); }

// A dump for when an AI core raises an exception, as the vendor's plugin asks for: there is no AI core that could.
bool asks_for_exceptions_only(const Json& dump) {
  return dump.is_object() && dump.size() == 1 && dump.contains("dump_scene") && dump["dump_scene"] == "lite_exception";
}

}  // namespace

void apply_init_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || text.empty()) fail(ACL_ERROR_INVALID_FILE, "%s: the file cannot be read, or is empty", path);
  Json top = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!top.is_object()) fail(ACL_ERROR_PARSE_FILE, "%s: the file holds no JSON object", path);
  for (const auto& [key, value] : top.items()) {
    if (key == "defaultDevice") {
      set_default_device(value);
    } else if (key == "max_opqueue_num") {
      // How many operators by name are kept: none are made.
      if (number(value, "max_opqueue_num") <= 0)
        fail(ACL_ERROR_FILE_ATTR_INVALID, "max_opqueue_num is a number above 0");
    } else if (key == "err_msg_mode") {
      // 0: messages of a thread, as here; 1: of the process.
      int mode = number(value, "err_msg_mode");
      if (mode != 0 && mode != 1) fail(ACL_ERROR_FILE_ATTR_INVALID, "err_msg_mode is 0 or 1");
      if (mode == 1)
        fail(ACL_ERROR_FEATURE_UNSUPPORTED,
             "err_msg_mode 1 is not supported by the software NPU: messages are a thread's");
    } else if (!asks_for_nothing(value) && !(key == "dump" && asks_for_exceptions_only(value))) {
      fail(ACL_ERROR_FEATURE_UNSUPPORTED, "%s: \"%s\" is not supported by the software NPU", path, key.c_str());
    }
  }
}

int default_device() noexcept { return g_default_device; }

}  // namespace softnpu
