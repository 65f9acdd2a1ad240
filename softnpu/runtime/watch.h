// What the runtime tells those who watch, while one does: the race detector (softnpu/race) of its streams and tasks, the memory checker
// (softnpu/memcheck) of tasks and memory. Who calls it: stream.cpp, event.cpp, shared_event.cpp, copy.cpp, graph.cpp, arena.cpp, ipc.cpp, virtual_memory.cpp,
// api_stream.cpp, api_check.cpp, api_virtual_memory.cpp.
// What it is not: the detector, the checker.
#pragma once

#include <optional>

#include "softnpu/memcheck/memcheck.h"
#include "softnpu/race/race.h"
#include "softnpu/runtime/work.h"

namespace softnpu {

class Stream;

// Starts what ANYCEND_CHECK asks for, once: before the first stream, and before the first memory or event of another process.
void watch_if_asked();

// As the detector knows it.
race::Stream named(Stream& stream);

// A task is about to be accepted. Throws the report of what it does wrong, where ANYCEND_CHECK_EXIT asks for errors. For the memory checker
// it may be taken: what is returned is the same task with a look behind the blocks that it touches, before and after.
std::optional<Work> watch(Stream& stream, Work& work);
// The calling thread is about to do it itself.
void watch_host(const char* name, const race::Accesses& accesses);
template <class State>
void watch_host(const char* name, const State& state, race::Tell tell) {
  race::Accesses accesses;
  tell(&state, accesses);
  watch_host(name, accesses);
}
// Given back to the device or the host.
void memory_gone(const void* address, uint64_t bytes) noexcept;
// Not mapped at that address any more.
void memory_unmapped(const void* address, uint64_t bytes) noexcept;

}  // namespace softnpu
