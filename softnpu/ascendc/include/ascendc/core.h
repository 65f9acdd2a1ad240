// The core that runs a block: its buffer, mask, flags and what its TPipe has given out. What it is not: the API. One a block, owned by
// the launch (launch.h), found through a thread-local pointer; used by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "ascendc/enums.h"
#include "ascendc/hazard.h"
#include "ascendc/macros.h"
#include "ascendc/runtime.h"
#include "ascendc/site.h"

namespace AscendC {
class TPipe;
namespace detail {

// A stretch of the unified buffer that InitBuffer gave out, in `num` equal pieces; the queue's state is here too.
struct Room {
  enum class State : uint8_t { kFree, kAllocated, kQueued, kTaken };
  const char* kind;  // "TQue", "TBuf"
  TPosition position;
  Site at;
  uint32_t num, length, start;
  std::vector<State> states;
  std::vector<Clock> freed;  // hazard.h: what must be over before the piece is written again
  std::deque<std::pair<uint32_t, Clock>> queued;
  int depth = 0;

  std::string name() const { return format("%s<%s> of %s:%d", kind, position_name(position), at.name(), at.line); }
  uint32_t bytes() const { return num * length; }
  // Of one of the pieces: where a tensor that was cut from it must end.
  uint32_t end(uint32_t piece) const { return start + (piece + 1) * length; }
};

struct Core {
  explicit Core(const softnpuAscendcBlock& b) : block(b), hazards((b.checks & 1) != 0, b.chip->unified_buffer) {}

  const softnpuAscendcBlock block;
  uint64_t mask[2] = {~0ull, ~0ull};  // normal mode: bits; counter mode: mask[0] elements
  bool counter = false;
  uint64_t compared[2] = {0, 0};  // the compare mask register
  uint64_t rsvd = 0;
  uint16_t merged[4] = {};  // elements taken from each queue by the last MrgSort
  float deq_scale = 1;
  enum class Atomic : uint8_t { kNone, kAdd, kMax, kMin } atomic = Atomic::kNone;
  uint8_t atomic_bytes = 0;
  bool flags[static_cast<int>(HardEvent::MAX)][8] = {};
  Clock flag_clocks[static_cast<int>(HardEvent::MAX)][8] = {};
  uint8_t events[static_cast<int>(HardEvent::MAX)] = {};  // bits: ids that AllocEventID gave out
  uint64_t waited[16] = {};                               // CrossCoreWaitFlag: how often, by flag
  TPipe* pipe = nullptr;
  std::deque<Room> rooms;  // a deque: queues keep pointers
  uint32_t used = 0;       // bytes of the unified buffer
  Hazards hazards;
  std::string leak;  // with the check on: a buffer that was never freed

  std::string taken() const {
    std::string text;
    for (const Room& r : rooms) text += format("; %s has %u x %u", r.name().c_str(), r.num, r.length);
    return text;
  }

  Room& give(const char* kind, TPosition position, uint32_t num, uint32_t length, Site at) {
    if (num == 0 || length == 0)
      fail(at, "InitBuffer",
           format("%s<%s>: %u buffers of %u bytes are none", kind, position_name(position), num, length));
    const uint64_t piece = (static_cast<uint64_t>(length) + 31) / 32 * 32, all = piece * num;
    const uint32_t capacity = block.chip->unified_buffer;
    if (all > capacity - used)
      fail(at, "InitBuffer",
           format("%s<%s> of %u x %llu bytes does not fit: %u of the %u bytes of %s's unified buffer are given out",
                  kind, position_name(position), num, static_cast<unsigned long long>(piece), used, capacity,
                  block.chip->name) +
               taken());
    rooms.push_back({kind, position, at, num, static_cast<uint32_t>(piece), used, {}, {}, {}});
    Room& room = rooms.back();
    room.states.assign(num, Room::State::kFree);
    room.freed.resize(num);
    used += static_cast<uint32_t>(all);
    return room;
  }

  void reset_rooms() {
    rooms.clear();
    used = 0;
  }
};

inline thread_local constinit Core* t_core = nullptr;

inline Core& core(Site at = {}, const char* what = "AscendC") {
  if (__builtin_expect(t_core == nullptr, 0))
    fail(at, what, "called outside of a kernel: launch one, by <<<>>> or ACLRT_LAUNCH_KERNEL");
  return *t_core;
}

}  // namespace detail
}  // namespace AscendC
