// The core that runs a block: its memories, mask, flags and what its TPipe has given out. What it is not: the API. One a block, owned by
// the launch (launch.h), found through a thread-local pointer; used by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
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

// A stretch of one of the core's memories that InitBuffer gave out, in `num` equal pieces; the queue's state is here too.
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
  // By TPipe's Reset or Destroy: it has 0 bytes then, so that a tensor that is still used is an error.
  bool closed = false;

  struct Part {
    uint32_t start, end;
    Site at;
  };
  std::vector<Part> parts = {};  // of a TBuf, with the check on: what TBuf::Get(length) and GetWithOffset gave out last

  // Who has a stretch of the memory from then on.
  void part(uint32_t from, uint32_t to, Site where) {
    std::erase_if(parts, [&](const Part& p) { return p.start < to && from < p.end; });
    parts.push_back({from, to, where});
  }

  bool queue() const { return kind[1] == 'Q'; }
  bool given_back(uint32_t piece) const { return queue() && states[piece] == State::kFree; }
  std::string name() const {
    return format("%s<%s> of %s:%d%s", kind, position_name(position), at.name(), at.line,
                  closed ? " (closed by TPipe's Reset or Destroy)" : "");
  }
  Space space() const { return space_of(position); }
  uint32_t bytes() const { return num * length; }
  // Of one of the pieces: where a tensor that was cut from it begins at the earliest, and must end.
  uint32_t begin(uint32_t piece) const { return start + piece * length; }
  uint32_t end(uint32_t piece) const { return begin(piece) + length; }
};

struct Core {
  explicit Core(const softnpuAscendcBlock& b)
      : block(b), group(b.index), groups(b.blocks), hazards((b.checks & 1) != 0, *b.chip) {
    hide(block.unified_buffer, block.chip->unified_buffer);
  }
  ~Core() { show(block.unified_buffer, block.chip->unified_buffer); }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  const softnpuAscendcBlock block;
  uint64_t mask[2] = {~0ull, ~0ull};  // normal mode: bits; counter mode: mask[0] elements
  bool counter = false;
  uint64_t compared[2] = {0, 0};  // the compare mask register
  // Which core of the chip this is: as the kernel states (KERNEL_TASK_TYPE_DEFAULT), or by what it uses first.
  enum class Kind : uint8_t { kUnstated, kVectorCore, kCubeCore } kind = Kind::kUnstated;
  bool either = false;                         // not to state it may mean both kinds of cores (kEither of launch.h)
  uint32_t group, groups, sub = 0, ratio = 1;  // mixed kernels: a group is a cube core and `ratio` vector cores
  bool mixed = false;

  // How many cores a block of such a kernel is, and which of them this is.
  static constexpr uint32_t cores(KernelMetaType t) {
    return t == KERNEL_TYPE_MIX_AIC_1_2 ? 3 : t == KERNEL_TYPE_MIX_AIC_1_1 ? 2 : 1;
  }
  void begin(KernelMetaType t) {
    const uint32_t n = cores(t);
    groups = block.blocks / n;
    group = block.index / n;
    mixed = n > 1;
    ratio = mixed ? n - 1 : 1;
    const uint32_t place = block.index % n;
    const bool cube = mixed ? place == 0 : t == KERNEL_TYPE_AIC_ONLY || t == KERNEL_TYPE_MIX_AIC_1_0;
    kind = cube ? Kind::kCubeCore : Kind::kVectorCore;
    sub = cube ? 0 : mixed ? place - 1 : 0;
  }
  bool cube() const { return kind == Kind::kCubeCore; }
  // Its number among the launch's cores of its kind, and how many these are.
  uint32_t number() const { return cube() ? group : group * ratio + sub; }
  uint32_t peers() const { return cube() ? groups : groups * ratio; }
  uint64_t rsvd = 0;
  uint64_t kept_bytes = 0;    // reg.h: by GatherMask since ClearSpr, in all
  uint32_t kept_last = 0;     // by the last one, and not yet stored
  uint64_t tiling_key = 0;    // of a package's kernel
  std::exception_ptr thrown;  // in a kernel that is noexcept
  uint16_t merged[4] = {};    // elements taken from each queue by the last MrgSort
  float deq_scale = 1;
  enum class Atomic : uint8_t { kNone, kAdd, kMax, kMin } atomic = Atomic::kNone;
  uint8_t atomic_bytes = 0;
  Site atomic_at;
  bool flags[static_cast<int>(HardEvent::MAX)][8] = {};
  Clock flag_clocks[static_cast<int>(HardEvent::MAX)][8] = {};
  Site flags_at[static_cast<int>(HardEvent::MAX)][8] = {};
  uint8_t events[static_cast<int>(HardEvent::MAX)] = {};  // bits: ids that AllocEventID gave out
  uint64_t met = 0;                                       // SyncAll<true> of a mixed kernel: how often
  uint64_t all_met = 0;                                   // other SyncAll: how often
  TPipe* pipe = nullptr;
  std::vector<Core**> lent;          // where other libraries whose kernels run on it have it (t_core), until it ends
  std::list<Room> rooms, old_rooms;  // lists: queues and tensors keep pointers, also to what was closed
  uint32_t used[kSpaces] = {};       // bytes given out
  Hazards hazards;
  uintptr_t polled[64] = {};  // where global memory was read lately (global_order.h)
  uint32_t polls = 0;         // how often, and much more for each time there again
  std::string leak;           // with the kernel checker: a buffer that was never freed

  uint8_t* memory(Space space) const {
    return space == kUnified ? block.unified_buffer : cube_memory(*block.chip, space);
  }

  // Who has the memory, by lines of InitBuffer, the largest first; the last ones in a sum where `room` characters do not suffice.
  std::string taken(Space space, size_t room) const {
    struct Line {
      const Room* first;
      uint32_t bytes, times;
    };
    std::vector<Line> lines;  // of InitBuffer
    for (const Room& r : rooms) {
      if (r.space() != space) continue;
      const auto same = [&](const Line& l) { return l.first->name() == r.name(); };
      const auto known = std::find_if(lines.begin(), lines.end(), same);
      if (known == lines.end())
        lines.push_back({&r, r.bytes(), 1});
      else
        known->bytes += r.bytes(), ++known->times;
    }
    std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.bytes > b.bytes; });
    std::string text;
    for (size_t i = 0; i < lines.size(); ++i) {
      const Line& l = lines[i];
      const std::string each = "; " + l.first->name() + " has " +
                               (l.times == 1 ? format("%u x %u", l.first->num, l.first->length)
                                             : format("%u bytes, in %u buffers", l.bytes, l.times));
      constexpr size_t kSum = 32;
      if (text.size() + each.size() + (i + 1 < lines.size() ? kSum : 0) > room) {
        uint32_t rest = 0, times = 0;
        for (size_t j = i; j < lines.size(); ++j) rest += lines[j].bytes, times += lines[j].times;
        return text + format("; %u more have %u bytes", times, rest);
      }
      text += each;
    }
    return text;
  }

  void be(Kind wanted, const char* thing, const char* what, Site at) {
    if (kind == Kind::kUnstated) kind = wanted;
    if (kind == wanted) return;
    const bool cube_wanted = wanted == Kind::kCubeCore;
    fail(at, what,
         format("the %s is of the %s cores, and the block runs on a %s core: ", thing, cube_wanted ? "cube" : "vector",
                cube_wanted ? "vector" : "cube") +
             (mixed ? format("only %s cores may come here (ASCEND_IS_%s)", cube_wanted ? "cube" : "vector",
                             cube_wanted ? "AIC" : "AIV")
                    : "KERNEL_TASK_TYPE_DEFAULT says which cores a kernel is for (KERNEL_TYPE_AIV_ONLY, "
                      "KERNEL_TYPE_AIC_ONLY, KERNEL_TYPE_MIX_AIC_1_2)"));
  }

  // Of a mixed kernel: the memory is one that this core has.
  void reach(Space space, const char* what, Site at) {
    if (__builtin_expect(mixed, 0))
      be(space == kUnified ? Kind::kVectorCore : Kind::kCubeCore, space_name(space), what, at);
  }

  Room& give(const char* kind, TPosition position, uint32_t num, uint32_t length, Site at) {
    if (num == 0) fail(at, "InitBuffer", format("%s<%s>: 0 buffers are none", kind, position_name(position)));
    const uint64_t piece = (static_cast<uint64_t>(length) + 31) / 32 * 32, all = piece * num;
    const Space space = space_of(position);
    // Of a mixed kernel each core may give out buffers of the other kind, which it then does not use.
    if (!mixed) be(space == kUnified ? Kind::kVectorCore : Kind::kCubeCore, space_name(space), "InitBuffer", at);
    const uint32_t capacity = space_bytes(*block.chip, space);
    if (all > capacity - used[space]) {
      const std::string wanted =
          format("%s<%s> of %u x %llu bytes does not fit: %u of the %u bytes of %s's %s are given out", kind,
                 position_name(position), num, static_cast<unsigned long long>(piece), used[space], capacity,
                 block.chip->name, space_name(space));
      // softnpuLaunchKernel passes on 399 characters, with the block's name and the line before these.
      const size_t before = 48 + strlen(at.name()) + wanted.size();
      fail(at, "InitBuffer", wanted + taken(space, before < 399 ? 399 - before : 0));
    }
    rooms.push_back({kind, position, at, num, static_cast<uint32_t>(piece), used[space], {}, {}, {}});
    Room& room = rooms.back();
    room.states.assign(num, Room::State::kFree);
    room.freed.resize(num);
    if (space == kUnified) show(block.unified_buffer + room.start, all);
    used[space] += static_cast<uint32_t>(all);
    return room;
  }

  // With the kernel checker: what the kernel leaves behind for the next one of the core.
  std::string left() const {
    if (!hazards.on() || !leak.empty()) return leak;
    if (atomic != Atomic::kNone)
      return format(
          "%s:%d: SetAtomicAdd, SetAtomicMax or SetAtomicMin is on when the kernel ends: SetAtomicNone is missing",
          atomic_at.name(), atomic_at.line);
    for (int e = 0; e < static_cast<int>(HardEvent::MAX); ++e)
      for (int id = 0; id < 8; ++id)
        if (flags[e][id])
          return format("%s:%d: SetFlag<HardEvent::%s> with id %d is set when the kernel ends: WaitFlag is missing",
                        flags_at[e][id].name(), flags_at[e][id].line, signal_of(static_cast<HardEvent>(e)).name, id);
    return "";
  }

  void reset_rooms() {
    for (Room& room : rooms) room.closed = true, room.length = 0;
    old_rooms.splice(old_rooms.end(), rooms);
    hide(block.unified_buffer, block.chip->unified_buffer);
    std::fill_n(used, +kSpaces, 0u);
  }
};

inline thread_local constinit Core* t_core = nullptr;

inline Core& core(Site at = {}, const char* what = "AscendC");

// In a handler around the body of a kernel that is noexcept.
inline void keep() {
  if (t_core) t_core->thrown = std::current_exception();
}

inline bool on_cube_core(const char* what, ASCENDC_AT) {
  const Core& c = core(at, what);
  if (c.either && c.kind == Core::Kind::kUnstated)
    fail(at, what,
         "the kernel does not say which cores it runs on: KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2) "
         "or another type is missing");
  return c.cube();
}

inline void state_type(KernelMetaType type, const char* name, ASCENDC_AT) {
  Core& c = core(at, "KERNEL_TASK_TYPE_DEFAULT");
  if (Core::cores(type) != (c.mixed ? c.ratio + 1 : 1))
    fail(at, "KERNEL_TASK_TYPE_DEFAULT",
         format("the kernel states %s here and runs on other cores, as it states elsewhere: state one type, once",
                name));
  if (!c.mixed)
    c.be(type == KERNEL_TYPE_AIC_ONLY || type == KERNEL_TYPE_MIX_AIC_1_0 ? Core::Kind::kCubeCore
                                                                         : Core::Kind::kVectorCore,
         name, "KERNEL_TASK_TYPE_DEFAULT", at);
}

inline Core& core(Site at, const char* what) {
  if (__builtin_expect(t_core == nullptr, 0))
    fail(at, what, "called outside of a kernel: launch one, by <<<>>> or ACLRT_LAUNCH_KERNEL");
  return *t_core;
}

}  // namespace detail
}  // namespace AscendC
