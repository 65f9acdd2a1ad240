// Device memory from torch_npu's cache. A block is reused on the stream it was allocated on; memory used on another needs recordStream.
// All are thread-safe; torch.OutOfMemoryError where there is no memory.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>

#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace c10_npu::NPUCachingAllocator {

using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

// PyTorch's interface of it: allocate, getDeviceStats, emptyCache … Never null.
TORCH_NPU_API extern std::atomic<c10::DeviceAllocator*> allocator;
inline c10::DeviceAllocator* get() { return allocator.load(std::memory_order_relaxed); }

// Memory of the current device, for its current stream; raw_delete gives it back.
TORCH_NPU_API void* raw_alloc(size_t bytes);
TORCH_NPU_API void raw_delete(void* pointer);
// The block is not reused before the stream has passed the work it has now.
inline void recordStream(const c10::DataPtr& data, NPUStream stream) { get()->recordStream(data, stream.unwrap()); }
// Gives what is free in the cache back to the device.
inline void emptyCache() { get()->emptyCache(); }

}  // namespace c10_npu::NPUCachingAllocator
