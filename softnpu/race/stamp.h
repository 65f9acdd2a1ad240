// A clock that other processes read: where an event between processes was recorded, or a collective submitted. Who writes and reads it:
// peers.cpp; who keeps it: the ledger, and runtime/shared_event.cpp.
#pragma once

#include <cstdint>

namespace softnpu::race {

struct Stamp {
  static constexpr uint32_t kMost = 40;
  struct At {
    uint32_t lane, unused;  // of the ledger's
    uint64_t time;
  };
  uint32_t count = 0;
  uint32_t all = 0;  // what is before it is not known: anything may be
  At at[kMost] = {};
};

}  // namespace softnpu::race
