// A task that says which memory it touches, for the tests of who watches: the race detector, the memory checker.
#pragma once

#include "softnpu/race/accesses.h"
#include "tests/runtime/cpp/fixture.h"

namespace softnpu {

struct Touching {
  const void* memory;
  uint64_t bytes;
  bool write;

  static int run(void*) noexcept { return 0; }
  static void tell(const void* state, race::Accesses& to) {
    const auto* t = static_cast<const Touching*>(state);
    race::Access::add(to, t->memory, t->bytes, t->write);
  }
};

inline void touch(Stream& stream, const char* name, const void* memory, bool write, uint64_t bytes = 64) {
  static const bool told = race::tells(Touching::run, Touching::tell);
  if (told) stream.submit(Work({Touching::run, nullptr, nullptr, name, Cost::kTiny}, Touching{memory, bytes, write}));
}

}  // namespace softnpu
