// What memory a task reads and writes. Each owner of a kind of task tells it for the `run` functions that are its own, as it describes
// them to profilers (runtime/trace.h); it is asked only while the race detector is on. Who tells: ops, hccl, the runtime's copies, fills
// and replays. What it is not: the detector (race.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace softnpu::race {

#define SOFTNPU_RACE_API __attribute__((visibility("default")))

// Which bytes of a stretch a strided view touches: runs of `run` bytes. A dense view needs none.
struct Pattern {
  static constexpr int kMost = 6;
  int dims = 0;
  int64_t sizes[kMost] = {}, strides[kMost] = {};  // strides in bytes, greatest first
  int64_t run = 0;
  bool operator==(const Pattern&) const = default;
};

struct Access {
  uintptr_t begin = 0, end = 0;
  bool write = false;
  std::shared_ptr<const Pattern> pattern;  // null: every byte

  // A dense stretch. Nothing of no bytes.
  static void add(std::vector<Access>& to, const void* address, uint64_t bytes, bool write) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (address && bytes) to.push_back({begin, begin + bytes, write, nullptr});
  }
  // A view: sizes and strides in elements of `item` bytes. A view of more dimensions than a pattern holds counts as dense.
  SOFTNPU_RACE_API static void add(std::vector<Access>& to, const void* address, int dims, const int64_t* sizes,
                                   const int64_t* strides, int item, bool write);
};
using Accesses = std::vector<Access>;

// Do both touch a byte of [begin, end)? Views of more than a million runs count as touching none: no false alarm.
bool overlap(const Access& a, const Access& b, uintptr_t begin, uintptr_t end);

// Tasks whose `run` this is are told of by `tell`, on the thread that submits them; `state` as in Task. It may throw bad_alloc.
using Tell = void (*)(const void* state, Accesses& accesses);
SOFTNPU_RACE_API bool tells(int (*run)(void*) noexcept, Tell tell) noexcept;
// Nothing of those that nobody tells of.
void told(int (*run)(void*) noexcept, const void* state, Accesses& accesses);

}  // namespace softnpu::race
