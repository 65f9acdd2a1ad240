// Devices as threads see them. Choosing a device sets this thread's state only (the autograd engine makes a thread for every
// index and chooses in each); the context is bound at the first call that needs it.
// What it is not: memory and streams of a device (allocator.h, stream.h).
// Who calls it: everything in the plugin. In an operator:   const NPUGuard guard(self.device().index());
#pragma once

#include <c10/core/Device.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "csrc/cann/api.h"
#include "csrc/cann/export.h"

namespace npu {

constexpr int kMaxDevices = 64;  // also softnpu/runtime/limits.h, which is behind CANN's C ABI: not shared

// The number of devices, 0 where there is none or CANN cannot be used (why: a warning, once). Needs no initialization and may
// be asked in a forked child.
NPU_API c10::DeviceIndex device_count() noexcept;

namespace detail {

struct ThreadState {
  int current;                        // what torch.npu.current_device() says
  int bound_plus_one;                 // the device whose context CANN has on this thread; 0 for none
  c10::StreamId stream[kMaxDevices];  // current stream of each device; 0 is the default stream
  aclrtStream raw[kMaxDevices];       // the same as CANN's handle; null until first used
};

NPU_API extern constinit thread_local ThreadState thread_state;

// Initializes if need be, and makes `device` CANN's device on this thread.
void bind(int device);
void forget_thread_state() noexcept;  // in a forked child
// Waits for every device that was used. Work that reaches the limit or failed is named on stderr, unless a synchronization has cleared the error.
void drain_devices() noexcept;

}  // namespace detail

inline c10::DeviceIndex current_device() noexcept {
  return static_cast<c10::DeviceIndex>(detail::thread_state.current);
}

// Throws c10::Error naming the index and what there is.
NPU_API void set_device(c10::DeviceIndex index);
NPU_API void check_device(c10::DeviceIndex index);

// For calls into CANN that act on the current device: initializes and binds. Cost when done already: two loads.
inline void ensure_context() {
  detail::ThreadState& state = detail::thread_state;
  if (C10_UNLIKELY(state.bound_plus_one != state.current + 1)) detail::bind(state.current);
}

// A context of this device was made in this process.
NPU_API bool has_context(c10::DeviceIndex index) noexcept;

// What a program asks for: limited by ACL_DEVICE_SYNC_TIMEOUT alone. The plugin's own waits are wait_for_device's (device_wait.h).
NPU_API void synchronize_device(c10::DeviceIndex index);

// Makes `index` the current device and restores the former one. Cheap; touches CANN not at all.
class NPUGuard {
 public:
  explicit NPUGuard(c10::DeviceIndex index) : state_(detail::thread_state), previous_(state_.current) {
    if (C10_UNLIKELY(index != previous_)) set_device(index);
  }
  explicit NPUGuard(c10::Device device) : NPUGuard(device.index()) {}
  ~NPUGuard() { state_.current = previous_; }
  NPUGuard(const NPUGuard&) = delete;
  NPUGuard& operator=(const NPUGuard&) = delete;

 private:
  detail::ThreadState& state_;
  int previous_;
};

}  // namespace npu
