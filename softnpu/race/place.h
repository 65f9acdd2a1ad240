// The line of the program for calls that come from outside of its operators (ctypes, the module acl, an extension): the client is asked
// for it. What it is not: the line that operators tell (set_place in accesses.h). Who calls it: runtime/api_memory.cpp, runtime/api_kernel.cpp,
// runtime/api_check.cpp, runtime/graph.cpp, softnpu/memcheck; accesses.cpp has its body.
#pragma once

#include "softnpu/race/accesses.h"

namespace softnpu::race {

// For threads that have not told it: asked where the client's own call comes from outside of its operators, with no lock held where it may wait.
void set_finder(const char* (*find)(int may_wait)) noexcept;
// While it lives, the calling thread's place is known if the client can find it. Off: a look at a flag.
class Asked {
 public:
  explicit Asked(bool may_wait = true) noexcept {
    if (watched()) ask(may_wait);
  }
  // Of a replayed task: the line that captured it, where the client tells none of its own. Null: not known.
  explicit Asked(const char* line) noexcept : mine_(watched() && line != nullptr && place() == nullptr) {
    if (mine_) set_place(line);
  }
  ~Asked() {
    if (__builtin_expect(mine_, 0)) set_place(nullptr);
  }
  Asked(const Asked&) = delete;

 private:
  void ask(bool may_wait) noexcept;
  bool mine_ = false;
};

}  // namespace softnpu::race
