// What memory remembers: of each stretch, and of each strided view, who has touched it since an access came after all before it. Who
// uses it: the detector, under its lock.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "softnpu/race/accesses.h"
#include "softnpu/race/clock.h"

namespace softnpu::race {

// A block that the client's caching allocator gave out. The same memory given out again is another block.
struct Block {
  uintptr_t begin, end;
  uint32_t owner;     // the lane whose order its reuse follows
  const char* place;  // the line of the program; null: not known
};

// One task, or one act of the host.
struct Action {
  uint32_t lane;
  uint64_t time;
  const char* name;
  const char* place;  // the line of the program; null: not known
};

struct Touch {
  std::shared_ptr<const Action> action;
  Access access;
  std::shared_ptr<const Block> block;  // null: not known
};

class Shadow {
 public:
  static constexpr size_t kMostViews = 1 << 14;  // of a weave

  // A touch that happens after what `clock` says: `conflict` is called with each earlier one that it is not ordered with. What `host`
  // says has happened before all that follows: it is not kept.
  void touch(const Touch& now, const Clock& clock, const Clock& host,
             const std::function<void(const Touch& earlier)>& conflict);
  // The memory is given back: who comes next begins anew.
  void forget(uintptr_t begin, uintptr_t end);
  // What `clock` says is over there.
  void forget(uintptr_t begin, uintptr_t end, const Clock& clock);
  // What is kept of [begin, end); of a stretch perhaps several times.
  void each(uintptr_t begin, uintptr_t end, const std::function<void(const Touch&)>& visit);
  // More strided views of one piece of memory than are kept: of some nothing is known any more.
  bool lost() const noexcept { return lost_; }

 private:
  // Of the same bytes. One lane's later write supersedes all of its own, a read its reads: at most two of each lane.
  using Touches = std::vector<Touch>;
  struct Stretch {
    uintptr_t end;
    Touches touches;
  };
  struct View {
    uintptr_t begin, end;
    Pattern pattern;
    auto operator<=>(const View&) const = default;
  };
  // Strided views that reach into each other.
  struct Weave {
    uintptr_t end;
    Clock newest;                      // of all its touches
    uintptr_t shortest = UINTPTR_MAX;  // at most what the shortest view reaches over
    size_t sweep = 256;                // so many views, and those are sought that need not be kept
    std::map<View, Touches> views{};
  };
  using Weaves = std::map<uintptr_t, Weave>;

  void split(uintptr_t at);
  Weaves::iterator first_weave(uintptr_t begin);
  void compare(const Touch& now, const Clock& clock, const std::function<void(const Touch&)>& conflict);
  void cover(const Touch& now, const Clock& clock, const Clock& host);
  void weave(const Touch& now, const Clock& clock, const Clock& host);
  void sweep(Weave& weave, const Clock& host);

  Clock newest_;                            // of all touches
  std::map<uintptr_t, Stretch> stretches_;  // dense touches by beginning; stretches do not overlap
  Weaves weaves_;                           // strided ones by beginning; weaves do not overlap
  bool lost_ = false;
};

}  // namespace softnpu::race
