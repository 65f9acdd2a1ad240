// What memory remembers: of each stretch, who has touched it since an access came after all before it. Who uses it: the detector,
// under its lock.
#pragma once

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
  // A touch that happens after what `clock` says: `conflict` is called with each earlier one that it is not ordered with.
  void touch(const Touch& now, const Clock& clock, const std::function<void(const Touch& earlier)>& conflict);
  // The memory is given back: who comes next begins anew.
  void forget(uintptr_t begin, uintptr_t end);

 private:
  struct Stretch {
    uintptr_t end;
    std::vector<Touch> touches;
  };
  void split(uintptr_t at);

  std::map<uintptr_t, Stretch> stretches_;  // by beginning; they do not overlap
};

}  // namespace softnpu::race
