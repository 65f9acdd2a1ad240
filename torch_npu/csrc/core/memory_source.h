// Where device memory comes from and goes back to: CANN, or two functions of a program's library (torch.npu.NPUPluggableAllocator).
// Who calls it: allocator.cpp for all memory, device_cache.cpp for the segments of a pool.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "acl/types.h"

namespace npu {

// Called with the device's context bound; for a pool, under the lock of the device's cache. `alloc` returns null where there is no more.
struct MemorySource {
  void* (*alloc)(ssize_t bytes, int device, aclrtStream stream) = nullptr;
  void (*free)(void* pointer, ssize_t bytes, int device, aclrtStream stream) = nullptr;

  explicit operator bool() const { return alloc != nullptr; }  // false: CANN
};

// Of functions whose addresses Python knows.
inline MemorySource source_at(uintptr_t alloc, uintptr_t free) {
  return {reinterpret_cast<decltype(MemorySource::alloc)>(alloc), reinterpret_cast<decltype(MemorySource::free)>(free)};
}

}  // namespace npu
