// A collective or message of a group of ranks: what each has put before it is done before what each puts behind it. Who tells: hccl, in its
// race::Tell; so of a replayed graph's, too. What it is not: the collective's own buffers (accesses.h).
#pragma once

#include <cstdint>
#include <vector>

#include "softnpu/race/accesses.h"

namespace softnpu::race {

struct Meeting {
  uint64_t group;  // the same number in all its ranks; the n-th of each is one and the same
  uint32_t rank, ranks;
};

// Of the task that the calling thread is telling of.
SOFTNPU_RACE_API void meets(const Meeting& meeting) noexcept;
// What was told since the last time, which is forgotten with this.
std::vector<Meeting> take_meetings() noexcept;

}  // namespace softnpu::race
