// The memory checker (ANYCEND_CHECK=memory): it knows the blocks that the client's caching allocator gives out, and which of their bytes
// somebody has written. A task that touches a block that is not given out, passes its end, or reads what nobody wrote is found when it is
// submitted; one that writes behind a block without saying so is found when it has run, by the bytes that lie there.
// Who calls it: softnpu/runtime, where streams, copies and memory are. What it is not: the order of tasks (softnpu/race), pointers outside of the
// device's memory (ANYCEND_CHECK=1). Thread-safe; its one lock is a leaf.
#pragma once

#include <cstdint>
#include <vector>

#include "softnpu/race/accesses.h"

namespace softnpu::memcheck {

inline bool on() noexcept { return race::watched(race::kMemory); }

// For the life of the process. `fails`: a call that does wrong fails.
void start(bool fails) noexcept;

inline constexpr int kFresh = 0xFF,
                     kFence = 0xB5;  // what a block's bytes are until they are written, and those behind them

// A caching allocator gives out the first `asked` of `bytes` to be used in the order of `stream`. They hold kFresh, what lies behind kFence, for
// whatever that stream is given from now on.
void given(const void* address, uint64_t asked, uint64_t bytes, const void* stream) noexcept;
void taken_back(const void* address) noexcept;
// Nothing is known of this memory any more: it was given back to the device, a graph keeps it, another process has it, too.
void forget(const void* address, uint64_t bytes) noexcept;
// A task was submitted, or the host touches memory. Null, or, where that is an error, the report of what it does wrong.
const char* task(const char* name, const race::Accesses& accesses) noexcept;
// A task of which nobody says what it touches: it may have written all there is.
void opaque() noexcept;

// The bytes behind a block, up to the next.
struct Fence {
  const unsigned char *begin, *end;
};
// Of the blocks that the accesses touch; without accesses, of all of the stream's.
std::vector<Fence> fences(const race::Accesses& accesses, const void* stream) noexcept;
// The first byte that is not what it was, or null.
const unsigned char* broken(const Fence& fence) noexcept;
// A task has run and broken it. Null, or the report where that is an error.
const char* wrote_behind(const char* name, const char* place, const unsigned char* byte) noexcept;

uint64_t found() noexcept;
const char* report(uint64_t n) noexcept;

}  // namespace softnpu::memcheck
