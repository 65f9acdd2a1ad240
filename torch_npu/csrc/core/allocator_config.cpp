#include "csrc/core/allocator_config.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

namespace npu {

Tuning tuning;

namespace {

std::atomic<double> fraction{1.0};

void refresh() {
  tuning.max_split_size = SharedConfig::max_split_size();
  tuning.max_non_split_rounding = SharedConfig::max_non_split_rounding_size();
  tuning.large_segment = SharedConfig::large_segment_size();
  tuning.garbage_collection_threshold = SharedConfig::garbage_collection_threshold();
  tuning.expandable_segments = SharedConfig::use_expandable_segments();
  const auto& divisions = SharedConfig::roundup_power2_divisions();
  tuning.roundup_power2 = std::any_of(divisions.begin(), divisions.end(), [](size_t n) { return n > 1; });
}

enum class Kind { kBoolean, kInteger, kFraction, kPageSize };

// Keys of the NPU's own. Those without an effect on this allocator are checked, and a warning says so: programs for servers set them.
struct Key {
  std::string_view name;
  Kind kind;
  int64_t low = 0;
  int64_t high = 0;
  std::string_view idle = "";  // why it changes nothing
};
constexpr Key kOwnKeys[] = {
    {"base_addr_aligned_kb", Kind::kInteger, 0, 16, "blocks are aligned to 512 bytes and more as it is"},
    {"page_size", Kind::kPageSize, 0, 0, "the device chooses its pages"},
    {"segment_size_mb", Kind::kInteger, 20, 1 << 20},  // old name of large_segment_size_mb
    {"multi_stream_lazy_reclaim", Kind::kBoolean, 0, 0, "events are polled by the next allocation"},
    {"pin_memory_expandable_segments", Kind::kBoolean, 0, 0, "pinned memory is of one piece"},
    {"per_process_memory_fraction", Kind::kFraction},
    {"throw_on_npumalloc_oom", Kind::kBoolean, 0, 0,
     "a request that cannot be met is an error once cached blocks are freed"},
    {"release_lock_on_npumalloc", Kind::kBoolean, 0, 0, "memory is asked for under the lock"},
    NPU_KEYS_OF_TORCH  // and what only PyTorch 2.10 leaves to us
};

struct Pair {
  std::string key;
  std::string value;
};

// "a:1,b:[x:1,y:2]" → pairs. A comma inside brackets belongs to the value.
std::vector<Pair> split(const std::string& text, const char* variable) {
  std::vector<Pair> pairs;
  std::string item;
  int depth = 0;
  const auto flush = [&] {
    if (item.empty()) return;
    const size_t colon = item.find(':');
    TORCH_CHECK_VALUE(colon != std::string::npos && colon > 0 && colon + 1 < item.size(), "npu: ", variable, "=", text,
                      ": '", item, "' is not of the form key:value");
    pairs.push_back({item.substr(0, colon), item.substr(colon + 1)});
    item.clear();
  };
  for (const char c : text) {
    if (c == ' ' || c == '\t') continue;
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth == 0) {
      flush();
    } else {
      item += c;
    }
  }
  flush();
  TORCH_CHECK_VALUE(depth == 0, "npu: ", variable, "=", text, ": the brackets do not match");
  return pairs;
}

bool in_range(const Pair& pair, double low, double high) {
  char* end = nullptr;
  const double value = std::strtod(pair.value.c_str(), &end);
  return *end == '\0' && value >= low && value <= high;
}

// What is wrong with the value, "" if nothing.
std::string complaint(const Key& key, const Pair& pair) {
  switch (key.kind) {
    case Kind::kBoolean:
      return pair.value == "True" || pair.value == "False" ? "" : "must be True or False";
    case Kind::kInteger:
      return in_range(pair, static_cast<double>(key.low), static_cast<double>(key.high))
                 ? ""
                 : "must be from " + std::to_string(key.low) + " to " + std::to_string(key.high);
    case Kind::kFraction:
      return in_range(pair, 0, 1) ? "" : "must be from 0 to 1";
    case Kind::kPageSize:
      return pair.value == "1g" ? "" : "must be 1g";
  }
  return "";
}

// `with_shared`: hand PyTorch's keys to c10, too; false where c10 called us.
void apply(const std::string& text, const char* variable, bool with_shared) {
  std::string shared;
  double new_fraction = -1;
  bool expandable = false;
  bool splitting = false;
  const auto add_shared = [&](const std::string& key, const std::string& value) {
    shared += (shared.empty() ? "" : ",") + key + ":" + value;
  };
  for (const Pair& pair : split(text, variable)) {
    const Key* own = nullptr;
    for (const Key& key : kOwnKeys) {
      if (key.name == pair.key) own = &key;
    }
    if (!own) {
      TORCH_CHECK_VALUE(SharedConfig::getKeys().count(pair.key), "npu: ", variable, "=", text, ": there is no key '",
                        pair.key, "'. anycend docs memory lists them");
      if (pair.key == "expandable_segments") expandable = pair.value == "True";
      if (pair.key == "max_split_size_mb" || pair.key == "garbage_collection_threshold") splitting = true;
      add_shared(pair.key, pair.value);
      continue;
    }
    const std::string wrong = complaint(*own, pair);
    TORCH_CHECK_VALUE(wrong.empty(), "npu: ", variable, "=", text, ": ", pair.key, " ", wrong, ", not ", pair.value);
    if (!own->idle.empty()) TORCH_WARN("npu: ", variable, ": ", pair.key, " has no effect here: ", own->idle);
    if (pair.key == "segment_size_mb" || pair.key == "large_segment_size_mb") set_large_segment(pair.value, add_shared);
    if (pair.key == "per_process_memory_fraction") new_fraction = std::strtod(pair.value.c_str(), nullptr);
  }
  TORCH_CHECK_VALUE(!(expandable && splitting), "npu: ", variable, "=", text,
                    ": expandable_segments cannot be combined with max_split_size_mb or garbage_collection_threshold");
  try {
    if (with_shared && !shared.empty()) SharedConfig::instance().parseArgs(shared);
  } catch (const c10::Error& error) {
    TORCH_CHECK_VALUE(false, "npu: ", variable, "=", text, ": ", error.what_without_backtrace());
  } catch (const std::exception&) {  // a number that is none
    TORCH_CHECK_VALUE(false, "npu: ", variable, "=", text, ": a value is not a number");
  }
  if (new_fraction >= 0) fraction = new_fraction;
  refresh();
}

// Lets PYTORCH_ALLOC_CONF and torch.accelerator take our keys. A PyTorch with CUDA has told c10 of its own before: one that both have
// is told once, or c10 throws, and the parser of the back end that comes last is called.
const c10::CachingAllocator::DeviceConfigParserHookRegistry parser_registered(
    [](const std::string& text) { apply(text, "allocator settings", false); },
    [] {
      std::unordered_set<std::string> keys;
      for (const Key& key : kOwnKeys) {
        if (std::string name(key.name); !SharedConfig::getKeys().count(name)) keys.insert(std::move(name));
      }
      return keys;
    }());

}  // namespace

void set_allocator_config(const std::string& text) { apply(text, "allocator settings", true); }

void load_allocator_config() {
  static std::mutex mutex;
  static bool done = false;
  const std::lock_guard<std::mutex> lock(mutex);
  if (done) return;
  const char* ours = std::getenv("PYTORCH_NPU_ALLOC_CONF");
  const char* shared = std::getenv("PYTORCH_ALLOC_CONF");
  TORCH_CHECK_VALUE(!ours || !shared,
                    "npu: PYTORCH_NPU_ALLOC_CONF and PYTORCH_ALLOC_CONF are both set: set one of them");
  if (ours) apply(ours, "PYTORCH_NPU_ALLOC_CONF", true);
  if (shared) apply(shared, "PYTORCH_ALLOC_CONF", true);
  done = true;
}

double configured_memory_fraction() { return fraction.load(); }

}  // namespace npu
