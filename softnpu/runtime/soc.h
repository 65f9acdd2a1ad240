// The chips the software NPU can claim to be: what aclrtGetSocName and the device attributes answer.
#pragma once

#include <cstdint>
#include <string>

namespace softnpu {

struct Soc {
  const char* name;
  int cube_cores;
  int vector_cores;
  uint64_t l2_bytes;
  bool bf16;
};

// Null if there is no such chip.
const Soc* find_soc(const char* name) noexcept;
std::string soc_names();

}  // namespace softnpu
