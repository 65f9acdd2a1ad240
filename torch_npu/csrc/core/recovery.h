// What a program does after a device fault: stops the device, so that nothing waits for it any more, and starts it again. Until then
// operators, copies, replays and collectives of it throw; after it memory of before may be marked unsafe, which operators refuse to read.
// Who calls it: torch_npu/npu/_recovery.py (stop_device, restart_device); what works on a device asks it first. What it is not: the
// groups of torch.distributed, whose communicators reinit_process_group makes usable again.
// Thread safety: all of it from any thread. Cost while nobody stops anything: one relaxed load a stream or tensor.
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/Allocator.h>

#include <atomic>

#include "csrc/cann/export.h"

namespace npu {

// Ends what the device runs and drops what it was given (aclrtDeviceTaskAbort); false where CANN could not, and a warning why.
NPU_API bool stop_device(c10::DeviceIndex index);
// It may be used again; `drop`: what it was given, also before a stop, is dropped, and its streams have no error.
NPU_API void restart_device(c10::DeviceIndex index, bool drop);

// Memory that was allocated before the last mark of its device is unsafe, until it is said to be safe or freed. Memory that is not of
// the caching allocator is always safe.
NPU_API void mark_unsafe(c10::DeviceIndex index);
NPU_API bool is_safe(const c10::DataPtr& data);
NPU_API void set_safe(const c10::DataPtr& data);
// Memory that takes over the values of other memory is as safe as that.
void carry_safety(const c10::DataPtr& from, const c10::DataPtr& to);

namespace detail {
NPU_API extern std::atomic<uint64_t> stopped;  // a bit for each device
NPU_API void refuse_if_stopped(c10::DeviceIndex index);
NPU_API extern std::atomic<bool> unsafe_refused;
[[noreturn]] NPU_API void throw_unsafe(const at::TensorBase& tensor);
uint32_t marks_of(c10::DeviceIndex index);
}  // namespace detail

inline bool any_stopped() { return detail::stopped.load(std::memory_order_relaxed) != 0; }
// Throws if the device is stopped.
inline void refuse_stopped(c10::DeviceIndex index) {
  if (__builtin_expect(any_stopped(), 0)) detail::refuse_if_stopped(index);
}

// Do operators refuse unsafe memory?
NPU_API void set_refuse_unsafe(bool refuse);
inline bool refuses_unsafe() { return detail::unsafe_refused.load(std::memory_order_relaxed); }
inline void refuse_unsafe(const at::TensorBase& tensor) {
  if (__builtin_expect(refuses_unsafe(), 0) && !is_safe(tensor.storage().data_ptr())) detail::throw_unsafe(tensor);
}

}  // namespace npu
