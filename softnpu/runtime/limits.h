// Limits: how many devices there may be, and what exports check of their callers' timeouts and sizes.
// Who uses it: api_*.cpp, copy.cpp, pinned.cpp; for the devices
// config.cpp, device.cpp, schedule.h, busy.cpp, registry.h, registry_view.cpp, utilization.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softnpu/runtime/error.h"
#include "softnpu/runtime/futex.h"

namespace softnpu {

// ANYCEND_DEVICES is no more; tables by device have so many places.
inline constexpr int kMaxDevices = 64;

// CANN's timeouts: milliseconds, or -1 for ever.
inline int64_t deadline_of(int32_t timeout) {
  if (timeout < -1) fail(ACL_ERROR_INVALID_PARAM, "timeout %d: give milliseconds, or -1 for ever", timeout);
  return deadline_after_ms(timeout);
}

// No memory reaches over the end of the address space.
inline bool wraps(const void* pointer, size_t bytes) noexcept {
  return reinterpret_cast<uintptr_t>(pointer) + bytes < bytes;
}
inline void need_range(const void* pointer, size_t bytes, const char* name) {
  if (wraps(pointer, bytes))
    fail(ACL_ERROR_INVALID_PARAM, "%s: %zu bytes from %p pass the end of memory", name, bytes, pointer);
}

}  // namespace softnpu
