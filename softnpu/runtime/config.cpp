#include "softnpu/runtime/config.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "softnpu/runtime/error.h"
#include "softnpu/runtime/limits.h"
#include "softnpu/runtime/soc.h"

namespace softnpu {
namespace {

bool switched_on(const char* name) {
  const char* v = getenv(name);
  if (v == nullptr || *v == 0) return false;
  if ((*v != '0' && *v != '1') || v[1]) fail(ACL_ERROR_INVALID_PARAM, "%s=%s: it must be 0 or 1", name, v);
  return *v == '1';
}

// ANYCEND_CHECK: 0, or a list of 1 (pointers and handles), race, memory, and kernel, which libsoftnpu_ascendc reads again.
void read_checks(Config& c) {
  const char* v = getenv("ANYCEND_CHECK");
  if (v == nullptr || *v == 0 || strcmp(v, "0") == 0) return;
  for (const char* at = v;; ++at) {
    const std::string_view word(at, strcspn(at, ","));
    if (word == "1")
      c.check = true;
    else if (word == "race")
      c.race = true;
    else if (word == "memory")
      c.memory_check = true;
    else if (word != "kernel")
      fail(ACL_ERROR_INVALID_PARAM,
           "ANYCEND_CHECK=%s: %s is no check; it must be 0, or of 1, kernel, memory and race one or several with "
           "commas between",
           v, word.empty() ? "an empty word" : std::string(word).c_str());
    at += word.size();
    if (*at == 0) return;
  }
}

std::unique_ptr<Config> read() {
  auto c = std::make_unique<Config>();
  if (const char* v = getenv("ANYCEND_DEVICES"); v && *v) {
    char* end;
    long n = strtol(v, &end, 10);
    static_assert(kMaxDevices <= 64, "sanitize/faults.cpp has a bit for each lost device");
    if (*end || n < 0 || n > kMaxDevices)
      fail(ACL_ERROR_INVALID_PARAM, "ANYCEND_DEVICES=%s: give a number from 0 to %d", v, kMaxDevices);
    c->devices = int(n);
  }
  c->visible = parse_visible(getenv("ASCEND_RT_VISIBLE_DEVICES"), c->devices);
  if (const char* v = getenv("ANYCEND_MEMORY"); v && *v) {
    c->memory = parse_bytes(v);
    if (c->memory < 2 << 20)
      fail(ACL_ERROR_INVALID_PARAM, "ANYCEND_MEMORY=%s: give a size of 2M or more, such as 64G or 512M", v);
  }
  const char* soc = getenv("ANYCEND_SOC");
  c->soc = find_soc(soc && *soc ? soc : "Ascend910B3");
  if (c->soc == nullptr)
    fail(ACL_ERROR_INVALID_PARAM, "ANYCEND_SOC=%s: no such chip here; known are %s", soc, soc_names().c_str());
  read_checks(*c);
  c->check_fails = switched_on("ANYCEND_CHECK_EXIT");
  c->strict =
      switched_on("ANYCEND_STRICT");  // libopapi and libhccl read it again; a value that is neither is refused here
  if (const char* v = getenv("ANYCEND_CHAOS"); v && *v) {
    char* end;
    c->chaos = strtoull(v, &end, 10);
    if (*end || *v == '-') fail(ACL_ERROR_INVALID_PARAM, "ANYCEND_CHAOS=%s: give a seed, a number from 0 on", v);
  }
  return c;
}

}  // namespace

const Config& config() {
  static constinit std::atomic<const Config*> shared{nullptr};
  if (const Config* c = shared.load(std::memory_order_acquire)) return *c;
  const Config* fresh = read().release();
  const Config* expected = nullptr;
  if (shared.compare_exchange_strong(expected, fresh)) return *fresh;
  delete fresh;
  return *expected;
}

int device_count() { return int(config().visible.size()); }

void need_device(int device) {
  if (device >= 0 && device < device_count()) return;
  fail(ACL_ERROR_RT_INVALID_DEVICEID,
       "device %d does not exist: %d visible (ANYCEND_DEVICES=%d, ASCEND_RT_VISIBLE_DEVICES=%s)", device,
       device_count(), config().devices,
       getenv("ASCEND_RT_VISIBLE_DEVICES") ? getenv("ASCEND_RT_VISIBLE_DEVICES") : "unset");
}

uint64_t parse_bytes(const char* text) noexcept {
  char* end;
  double value = strtod(text, &end);
  if (end == text || value < 0) return 0;
  switch (*end) {
    case 'k':
    case 'K':
      value *= 1ull << 10;
      ++end;
      break;
    case 'm':
    case 'M':
      value *= 1ull << 20;
      ++end;
      break;
    case 'g':
    case 'G':
      value *= 1ull << 30;
      ++end;
      break;
    case 't':
    case 'T':
      value *= 1ull << 40;
      ++end;
      break;
    default:
      break;
  }
  if (*end == 'i') ++end;
  if (*end == 'B') ++end;
  return *end || value > double(1ull << 46) ? 0 : uint64_t(value);
}

std::vector<int> parse_visible(const char* text, int devices) {
  std::vector<int> ids;
  if (text == nullptr) {
    for (int i = 0; i < devices; ++i) ids.push_back(i);
    return ids;
  }
  while (*text >= '0' && *text <= '9') {
    char* end;
    long id = strtol(text, &end, 10);
    if (id >= devices || (!ids.empty() && id <= ids.back())) break;
    ids.push_back(int(id));
    if (*end != ',') break;
    text = end + 1;
  }
  return ids;
}

}  // namespace softnpu
