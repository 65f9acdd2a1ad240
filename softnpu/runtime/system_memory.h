// What memory the machine, or the process's cgroup, has and has left.
#pragma once

#include <cstdint>

namespace softnpu {

struct SystemMemory {
  uint64_t limit;      // the machine's memory, or the tightest cgroup limit
  uint64_t available;  // what can still be taken below the limit
  uint64_t reserve;    // what the NPUs leave to the rest: the larger of 1 GiB and 5 % of the limit
};

SystemMemory system_memory() noexcept;

}  // namespace softnpu
