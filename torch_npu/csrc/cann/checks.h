// The race detector and the memory checker of the software NPU (ANYCEND_CHECK=race, memory): what the plugin tells them beyond CANN's calls,
// and what they have found. Who calls it: csrc/core (blocks of the caching allocator), csrc/python (lines, operators on the host).
// What it is not: the detector, the checker.
#pragma once

#include <atomic>

#include "acl/soft.h"
#include "csrc/cann/export.h"

namespace cann {

struct Checks {
  bool race, memory;  // what is on
  decltype(&::softnpuPlace) place;
  decltype(&::softnpuPlaceBy) place_by;
  decltype(&::softnpuBlockGiven) block_given;
  decltype(&::softnpuBlockBack) block_back;
  decltype(&::softnpuRaceHost) host;
  decltype(&::softnpuRaceCount) race_count;
  decltype(&::softnpuRaceReport) race_report;
  decltype(&::softnpuMemoryCount) memory_count;
  decltype(&::softnpuMemoryReport) memory_report;
};

// Null until watch: one relaxed load.
NPU_API extern std::atomic<const Checks*> watched;

// Loads libascendcl, and throws as acl() does; a NotImplementedError where it has neither: CANN on an Ascend server.
NPU_API const Checks& watch(bool race, bool memory);

}  // namespace cann
