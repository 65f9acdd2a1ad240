#include "csrc/core/device.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

#include "csrc/cann/error.h"
#include "csrc/core/device_wait.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/options.h"

namespace npu {
namespace detail {

constinit thread_local ThreadState thread_state{};

namespace {
std::array<std::atomic<bool>, kMaxDevices> has_context_of{};

int32_t limit_of_a_wait() {
  const Options& o = options();
  return o.device_sync_timeout > 0 ? o.device_sync_timeout : o.stream_sync_timeout;
}

bool is_limit(int32_t limit) { return limit > 0 && cann::acl().aclrtSynchronizeDeviceWithTimeout; }

// Of the device that is bound.
int wait(int32_t limit) {
  const cann::Api& acl = cann::acl();
  return is_limit(limit) ? acl.aclrtSynchronizeDeviceWithTimeout(limit) : acl.aclrtSynchronizeDevice();
}

void wait_or_throw(c10::DeviceIndex index, int32_t limit) {
  const NPUGuard guard(index);
  ensure_context();
  const int status = wait(limit);
  if (status != 0) cann::throw_status(status, "aclrtSynchronizeDevice", is_limit(limit) ? "WithTimeout" : "");
}
}  // namespace

void bind(int device) {
  initialize();
  NPU_CHECK(cann::acl().aclrtSetDevice(device));
  has_context_of[device].store(true, std::memory_order_release);
  thread_state.bound_plus_one = device + 1;
}

void forget_thread_state() noexcept {
  thread_state.bound_plus_one = 0;
  std::fill(std::begin(thread_state.raw), std::end(thread_state.raw), nullptr);
}

void drain_devices() noexcept {
  for (int i = 0; i < kMaxDevices; ++i) {
    if (!has_context_of[i].load(std::memory_order_acquire)) continue;
    if (cann::acl().aclrtSetDevice(i) != 0) continue;
    const int status = wait_for_bound_device();
    if (status == 0 || status == ACL_ERROR_RT_DEVICE_TASK_ABORT) continue;  // who stopped the device knows it
    const std::string message = cann::recent_message();
    const char* what = status == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
                           ? "the process ends before the device's work, which is dropped"
                       : cann::was_told(message.c_str())
                           ? "an operator failed, and what was queued behind it was dropped. The program got this "
                             "error, or one in its words"
                           : "an operator failed, and what was queued behind it was dropped. No error told the program";
    std::fprintf(stderr, "npu:%d: %s: %s\n", i, what, message.c_str());
  }
  thread_state.bound_plus_one = 0;
}

}  // namespace detail

namespace {

void warn(const std::string& reason) noexcept {
  try {
    static auto* const lock = new std::mutex();
    static auto* const said = new std::string();
    {
      const std::lock_guard<std::mutex> guard(*lock);
      if (*said == reason) return;
      *said = reason;
    }
    TORCH_WARN("there are no npu devices: ", reason);
  } catch (...) {  // warnings may be errors here, and the caller may not throw
  }
}

// -1 where CANN cannot be used, and a warning why; a later call may find it corrected.
int count_devices() noexcept {
  try {
    uint32_t count = 0;
    const int status = cann::acl().aclrtGetDeviceCount(&count);
    if (status == ACL_ERROR_RT_NO_DEVICE) return 0;
    if (status != 0) cann::throw_status(status, "aclrtGetDeviceCount");
    return static_cast<int>(std::min<uint32_t>(count, kMaxDevices));
  } catch (const c10::Error& error) {
    warn(error.what_without_backtrace());
  } catch (const std::exception& error) {
    warn(error.what());
  }
  return -1;
}

}  // namespace

c10::DeviceIndex device_count() noexcept {
  static std::atomic<int> known{-1};
  int count = known.load(std::memory_order_acquire);
  if (C10_UNLIKELY(count < 0)) {
    count = count_devices();
    known.store(count, std::memory_order_release);
  }
  return static_cast<c10::DeviceIndex>(std::max(count, 0));
}

void check_device(c10::DeviceIndex index) {
  const int count = device_count();
  if (C10_LIKELY(index >= 0 && index < count)) return;
  cann::acl();  // where CANN cannot be used at all, say that instead
  TORCH_CHECK(false, "npu: invalid device index ", static_cast<int>(index), ": ",
              count == 0   ? "this process sees no npu device"
              : count == 1 ? "the only device is npu:0"
                           : "the devices are npu:0 to npu:" + std::to_string(count - 1),
              ". ASCEND_RT_VISIBLE_DEVICES chooses which devices a process sees");
}

void set_device(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0, "Expected all tensors and generators to be on the same device, but found at least two ",
              "devices, npu and cpu!");  // a guard of what is no npu tensor
  check_device(index);
  detail::thread_state.current = index;
}

bool has_context(c10::DeviceIndex index) noexcept {
  return index >= 0 && index < kMaxDevices && detail::has_context_of[index].load(std::memory_order_acquire);
}

void synchronize_device(c10::DeviceIndex index) { detail::wait_or_throw(index, options().device_sync_timeout); }
int wait_for_bound_device() { return detail::wait(detail::limit_of_a_wait()); }
void wait_for_device(c10::DeviceIndex index) { detail::wait_or_throw(index, detail::limit_of_a_wait()); }

}  // namespace npu
