// Streams: each device has a default stream, and pools of `STREAMS_PER_DEVICE` streams of normal and of high priority that are
// handed out in turn and never destroyed, as CUDA's. A stream is made at its first use. c10::Stream is the value passed
// around; its id says which of these it is. The current stream is the thread's, for each device.
//     aclrtStream stream = current_raw_stream();      of the current device, for a call into CANN
// What it is not: events (event.h).
#pragma once

#include <c10/core/Stream.h>

#include "csrc/cann/export.h"
#include "csrc/core/device.h"

namespace npu {

namespace detail {
aclrtStream resolve_current_stream();
}

// The current device's current stream; its context is bound when this returns. Cost: three loads.
inline aclrtStream current_raw_stream() {
  detail::ThreadState& state = detail::thread_state;
  aclrtStream raw = state.raw[state.current];
  if (C10_LIKELY(raw && state.bound_plus_one == state.current + 1)) return raw;
  return detail::resolve_current_stream();
}

// -1: the current device.
NPU_API c10::Stream current_stream(c10::DeviceIndex index = -1);
NPU_API c10::Stream default_stream(c10::DeviceIndex index = -1);
// Returns the former one. Does not change the current device.
NPU_API c10::Stream exchange_stream(c10::Stream stream);

// The next one of a pool; a negative priority is high.
NPU_API c10::Stream stream_from_pool(c10::DeviceIndex index = -1, int priority = 0);
// Wraps a stream made elsewhere; it must outlive every use.
NPU_API c10::Stream external_stream(aclrtStream raw, c10::DeviceIndex index);
NPU_API bool is_high_priority(c10::Stream stream) noexcept;

// CANN's handle, made if need be. Binds the stream's device for the time of the call.
NPU_API aclrtStream raw_stream(c10::Stream stream);

NPU_API bool query_stream(c10::Stream stream);
NPU_API void synchronize_stream(c10::Stream stream);
// The host waits for a stream whose device is bound, at most as long as ACL_STREAM_TIMEOUT says; every wait of a stream is this one.
NPU_API void wait_for(aclrtStream raw);
NPU_API bool is_capturing(c10::Stream stream);

}  // namespace npu
