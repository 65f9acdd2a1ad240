// The caching allocator of device memory, on c10's DeviceAllocator interface.
//     c10::DataPtr workspace = device_allocator()->allocate(bytes);      on the current device and its current stream
// A block freed is reused on the stream it was allocated on; memory used on another stream needs recordStream.
// Who calls it: PyTorch, csrc/ops (outputs, workspaces), csrc/distributed (recordStream), csrc/python.
// What it is not: the cache of a device (device_cache.h), its configuration (allocator_config.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "csrc/cann/export.h"
#include "csrc/core/memory_source.h"
#include "csrc/core/torch_version.h"

namespace npu {

NPU_API c10::DeviceAllocator* device_allocator();

// The rest of torch.npu.memory. Each throws for a device that does not exist; none needs the GIL.
namespace memory {

NPU_API void set_fraction(double fraction, c10::DeviceIndex index);
NPU_API double get_fraction(c10::DeviceIndex index);

// Those of device_allocator()->getDeviceStats(), and what PyTorch 2.10 has no place for.
NPU_API DeviceStats stats(c10::DeviceIndex index);

struct Snapshot {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments;
  std::vector<std::vector<c10::CachingDeviceAllocator::TraceEntry>> traces;  // by device
};
// Of one device, or, for -1, of all. The traces of the others are empty.
NPU_API Snapshot snapshot(c10::DeviceIndex index = -1);
NPU_API void record_history(c10::DeviceIndex index, bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder,
                            size_t max_entries, c10::CachingDeviceAllocator::RecordContext when, bool clear);

// Private pools of a device, see device_cache.h. A pool is there as long as somebody holds it.
NPU_API c10::MempoolId_t new_pool_id(bool for_graph);
NPU_API void hold_pool(c10::DeviceIndex index, c10::MempoolId_t id, MemorySource source = {});
NPU_API void drop_pool(c10::DeviceIndex index, c10::MempoolId_t id);
NPU_API void begin_allocate_to(c10::DeviceIndex index, c10::MempoolId_t id, bool capturing,
                               std::function<bool(c10::StreamId)> takes);
NPU_API void end_allocate_to(c10::DeviceIndex index, c10::MempoolId_t id);

// All memory of all devices from there, without a cache, from now on. Throws if a tensor was allocated before.
NPU_API void use_source(MemorySource source);
NPU_API bool has_source();

// For code without tensors: a pointer of the current device, freed by raw_free.
NPU_API void* raw_allocate(size_t bytes, c10::Stream stream);
NPU_API void raw_free(void* pointer);

// Base and size of the segment that holds the storage's memory, for sharing it with another process.
NPU_API std::pair<void*, size_t> segment_of(const c10::DataPtr& data);

}  // namespace memory
}  // namespace npu
