// The race detector and the memory checker of the software NPU (ANYCEND_CHECK=race, memory): what the plugin tells them beyond CANN's calls,
// and what they have found. Who calls it: csrc/core (streams, blocks of the caching allocator), csrc/python (lines, operators on the host).
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
  decltype(&::softnpuStreamNumber) stream_number;
  decltype(&::softnpuBlockGiven) block_given;
  decltype(&::softnpuBlockBack) block_back;
  decltype(&::softnpuOwnQuestion) own_question;
  decltype(&::softnpuBlockOver) block_over;
  decltype(&::softnpuRaceHost) host;
  decltype(&::softnpuRaceOwed) owed;
  decltype(&::softnpuRaceCount) race_count;
  decltype(&::softnpuRaceReport) race_report;
  decltype(&::softnpuMemoryCount) memory_count;
  decltype(&::softnpuMemoryReport) memory_report;
};

// Tells the software NPU the line that the calling thread is at; null where this CANN has no such function.
NPU_API decltype(&::softnpuPlace) place_function();

// Null until watch: one relaxed load.
NPU_API extern std::atomic<const Checks*> watched;

// Loads libascendcl, and throws as acl() does; a NotImplementedError where it has neither: CANN on an Ascend server.
NPU_API const Checks& watch(bool race, bool memory);

// While it lives, what the calling thread asks and waits for is this library's own matter, not the program's: it makes no order that a
// race could hide behind. Off: one relaxed load.
class OwnQuestion {
 public:
  OwnQuestion() : checks_(watched.load(std::memory_order_relaxed)) {
    if (__builtin_expect(checks_ != nullptr, 0)) before_ = checks_->own_question(1);
  }
  ~OwnQuestion() {
    if (__builtin_expect(checks_ != nullptr, 0)) checks_->own_question(before_);
  }
  OwnQuestion(const OwnQuestion&) = delete;
  OwnQuestion& operator=(const OwnQuestion&) = delete;

 private:
  const Checks* checks_;
  int before_ = 0;
};

// The memory's allocator has seen `event`: what was done to it before the event's record is over.
inline void block_over(const void* address, uint64_t bytes, aclrtEvent event) {
  const Checks* checks = watched.load(std::memory_order_relaxed);
  if (__builtin_expect(checks != nullptr && checks->race, 0)) checks->block_over(address, bytes, event);
}

}  // namespace cann
