// What memory a task reads and writes. Each owner of a kind of task tells it for the `run` functions that are its own, as it describes
// them to profilers (runtime/trace.h); it is asked only while somebody watches: the race detector (race.h), the memory checker (memcheck).
// Who tells: ops, hccl, the runtime's copies, fills and replays.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "softnpu/sanitize/watched.h"

namespace softnpu::race {

#define SOFTNPU_RACE_API __attribute__((visibility("default")))

using sanitize::kMemory, sanitize::kRaces;  // who watches: bits of sanitize/watched.h
inline bool watched(uint32_t by = kRaces | kMemory) noexcept { return sanitize::watched(by); }
void watch_for(uint32_t by) noexcept;
// In a forked child: no lock is taken any more.
void stop() noexcept;

// The line of the program that the calling thread is at, in memory that stays; null: not known.
void set_place(const char* place) noexcept;
const char* place() noexcept;

// Which bytes of a stretch a strided view touches: runs of `run` bytes. A dense view needs none.
struct Pattern {
  static constexpr int kMost = 6;
  int dims = 0;
  int64_t sizes[kMost] = {}, strides[kMost] = {};  // strides in bytes, greatest first
  int64_t run = 0;
  auto operator<=>(const Pattern&) const = default;
};

struct Access {
  uintptr_t begin = 0, end = 0;
  bool write = false;
  std::shared_ptr<const Pattern> pattern;  // null: every byte
  bool chosen = false;  // read where an index, a mask or a length says, which is not known when the task is submitted

  // A dense stretch. Nothing of no bytes.
  static void add(std::vector<Access>& to, const void* address, uint64_t bytes, bool write) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (address && bytes) to.push_back({begin, begin + bytes, write, nullptr, false});
  }
  // A view: sizes and strides in elements of `item` bytes. A view of more dimensions than a pattern holds counts as dense.
  SOFTNPU_RACE_API static void add(std::vector<Access>& to, const void* address, int dims, const int64_t* sizes,
                                   const int64_t* strides, int item, bool write);
};
using Accesses = std::vector<Access>;

// Do both touch a byte of [begin, end)? Views of more than a million runs count as touching none: no false alarm.
bool overlap(const Access& a, const Access& b, uintptr_t begin, uintptr_t end);

// Calls `run` for each dense stretch of bytes. False, and no call, for a view of more than a million of them.
bool each_run(const Access& access, const std::function<void(uintptr_t begin, uintptr_t end)>& run);

// Tasks whose `run` this is are told of by `tell`, on the thread that submits them; `state` as in Task. It may throw bad_alloc.
using Tell = void (*)(const void* state, Accesses& accesses);
SOFTNPU_RACE_API bool tells(int (*run)(void*) noexcept, Tell tell) noexcept;
// False, and nothing, of those that nobody tells of.
bool told(int (*run)(void*) noexcept, const void* state, Accesses& accesses);

}  // namespace softnpu::race
