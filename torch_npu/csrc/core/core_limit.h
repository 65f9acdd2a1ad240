// How many of a device's cores operators may use: a limit of the device, or of a stream, which comes first. CANN keeps them, and what a
// core is, is CANN's to say. Who calls it: csrc/python; stream.cpp, where a stream becomes a thread's current one.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>

#include "csrc/cann/export.h"

namespace npu {

struct CoreLimit {
  uint32_t cube = 0;
  uint32_t vector = 0;
};

NPU_API CoreLimit device_core_limit(c10::DeviceIndex device);
NPU_API CoreLimit stream_core_limit(c10::Stream stream);  // its device's where it has none
// 0 leaves a kind of core as it was. Throws c10::Error where CANN refuses the number.
NPU_API void set_device_core_limit(c10::DeviceIndex device, CoreLimit limit);
NPU_API void set_stream_core_limit(c10::Stream stream, CoreLimit limit);
NPU_API void reset_stream_core_limit(c10::Stream stream);

// Whether a stream has had a limit in this process: CANN then wants to know the stream of each thread.
extern std::atomic<bool> some_core_limit;
inline bool core_limits_set() noexcept { return some_core_limit.load(std::memory_order_relaxed); }
// Tells CANN that this thread's operators have the stream's limit. Warns where it cannot: guards' destructors call it.
void follow_core_limit(c10::Stream stream);

}  // namespace npu
