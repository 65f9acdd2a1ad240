// The race detector of the software NPU (ANYCEND_CHECK=race): what the plugin tells it beyond CANN's calls, and what it has found.
// Who calls it: csrc/core (blocks of the caching allocator), csrc/python (lines, operators on the host). What it is not: the detector.
#pragma once

#include <atomic>

#include "acl/soft.h"
#include "csrc/cann/export.h"

namespace cann {

struct Races {
  decltype(&::softnpuRacePlace) place;
  decltype(&::softnpuRaceBlock) block;
  decltype(&::softnpuRaceHost) host;
  decltype(&::softnpuRaceCount) count;
  decltype(&::softnpuRaceReport) report;
};

// Null until watch_races: one relaxed load.
NPU_API extern std::atomic<const Races*> watched_races;

// Loads libascendcl, and throws as acl() does; a NotImplementedError where it has no race detector: CANN on an Ascend server.
NPU_API const Races& watch_races();

}  // namespace cann
