// What PyTorch's records of memory have no field for, while torch_npu.profiler keeps them: the bytes that are not yet free for others, and
// the stream. One point for each record that is made (reportMemoryUsageToProfiler), in their order by address and size.
// Who adds: allocator.cpp, which has asked memoryProfilingEnabled(). Who takes: torch_npu.profiler, by csrc/python/memory.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "csrc/cann/export.h"

namespace npu {

struct MemoryPoint {
  const void* address;
  int64_t bytes;   // negative where they are freed
  int64_t active;  // of the device, after it
  void* stream;    // CANN's, that the block belongs to
};

// A profile of memory begins: points of one before are dropped. Without it none are kept.
NPU_API void keep_memory_points();
// What was kept, and no more are.
NPU_API std::vector<MemoryPoint> take_memory_points();
void add_memory_point(const MemoryPoint& point);

}  // namespace npu
