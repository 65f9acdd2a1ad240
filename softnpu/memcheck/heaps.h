// Memory that a program's own allocator cuts up, as it tells by mstxMemHeapRegister and mstxMemRegionsRegister: within a heap only regions
// may be touched. What it is not: the blocks of PyTorch's allocator (memcheck.cpp), of which a heap may be one.
// Who uses it: the checker, under its lock; mstx (softnpu/trace) through the functions at the end, which do nothing while nobody checks.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "softnpu/race/accesses.h"

namespace softnpu::memcheck {

inline std::string of_bytes(uint64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

class Heaps {
 public:
  bool empty() const { return heaps_.empty(); }
  // What is wrong with a heap, in words, or nothing; then it is registered and `handle` is its number, which is not 0.
  std::string add(uintptr_t begin, uintptr_t end, uint64_t& handle);
  void remove(uint64_t heap);
  // Heaps of memory that is somebody else's now.
  void forget(uintptr_t begin, uintptr_t end);

  // What is wrong with a region, in words, or nothing; then it is registered and `handle` is its number.
  std::string add_region(uint64_t heap, uintptr_t begin, uintptr_t end, const char* place, uint64_t& handle);
  void remove_region(uint64_t handle, const char* place);
  void remove_region_at(uintptr_t begin, const char* place);

  // What of an access is wrong. `memory` says of which region or heap.
  struct Wrong {
    bool freed = false;
    std::string what, memory;
  };
  bool judge(const race::Access& access, Wrong& wrong) const;

 private:
  struct Region {
    uintptr_t end;
    uint64_t handle;
    const char *registered, *gone = nullptr;
    bool live = true;
  };
  struct Heap {
    uintptr_t begin, end;
    std::map<uintptr_t, Region> regions;  // by beginning; they do not overlap
  };
  static bool judge_run(const Heap& heap, uintptr_t from, uintptr_t to, Wrong& wrong);
  static bool touches_live(const Heap& heap, uintptr_t from, uintptr_t to);

  std::map<uint64_t, Heap> heaps_;
  uint64_t next_ = 1;
};

// What mstx calls. A number is 0 where nobody checks, and of what was registered wrongly.
SOFTNPU_RACE_API uint64_t heap_registered(const void* at, uint64_t bytes) noexcept;
SOFTNPU_RACE_API void heap_unregistered(uint64_t heap) noexcept;
SOFTNPU_RACE_API uint64_t region_registered(uint64_t heap, const void* at, uint64_t bytes) noexcept;
SOFTNPU_RACE_API void region_unregistered(uint64_t handle) noexcept;
SOFTNPU_RACE_API void region_unregistered_at(const void* at) noexcept;

}  // namespace softnpu::memcheck
