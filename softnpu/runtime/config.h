// The machine the user asked for: devices, capacity, chip, checks. Read from the environment once, at first use.
// Reading takes no lock: it must work in a forked child of a thread that was reading.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace softnpu {

struct Soc;

struct Config {
  int devices = 8;                // in the machine (ANYCEND_DEVICES)
  std::vector<int> visible;       // physical ids by logical index (ASCEND_RT_VISIBLE_DEVICES)
  uint64_t memory = 0;            // bytes of each device (ANYCEND_MEMORY); 0: what the machine has
  const Soc* soc = nullptr;       // ANYCEND_SOC
  bool check = false;             // ANYCEND_CHECK: 1
  bool race = false;              // race
  bool memory_check = false;      // memory
  bool check_fails = false;       // ANYCEND_CHECK_EXIT
  bool strict = false;            // ANYCEND_STRICT
  std::optional<uint64_t> chaos;  // ANYCEND_CHAOS: the seed
};

// Throws Error for a value that cannot be read, naming the variable; every time it is asked.
const Config& config();

int device_count();
// Throws ACL_ERROR_RT_INVALID_DEVICEID.
void need_device(int device);

// "64G", "512M", "1T", "1073741824" -> bytes; 0 if it cannot be read.
uint64_t parse_bytes(const char* text) noexcept;
// The rule of ASCEND_RT_VISIBLE_DEVICES: a comma list in ascending order; reading stops at the first character that is
// neither a digit nor a comma, and at the first id out of range or out of order. Null is all, empty is none.
std::vector<int> parse_visible(const char* text, int devices);

}  // namespace softnpu
