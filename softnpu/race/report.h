// The text of a race: who, where, which memory, what is missing and what to call. Who calls it: race.cpp.
#pragma once

#include <string>

#include "softnpu/race/ledger.h"
#include "softnpu/race/shadow.h"

namespace softnpu::race {

// How users know a lane.
struct Lane {
  bool host = false;
  int device = -1, stream = -1;
};

// `owner`: of the earlier touch's block, where there is one.
std::string report_text(const Touch& earlier, const Touch& now, const Lane& before, const Lane& after,
                        const Lane& owner, bool captured);

// What another process has put on a stream.
struct Stranger {
  Ledger::Entry entry;
  int pid, rank;  // -1: no rank
  Lane lane;
};
// [begin, end): where the stranger's bytes are in this process.
std::string report_text(const Stranger& earlier, uintptr_t begin, uintptr_t end, const Touch& now, const Lane& after,
                        int pid, int rank);

}  // namespace softnpu::race
