#include "csrc/core/recovery.h"

#include <array>

#include "csrc/cann/error.h"
#include "csrc/cann/later.h"
#include "csrc/core/device.h"
#include "csrc/core/type_name.h"

namespace npu {
namespace {

std::array<std::atomic<uint32_t>, kMaxDevices> marks{};

uint64_t bit_of(c10::DeviceIndex index) { return uint64_t{1} << index; }

bool abort_tasks(c10::DeviceIndex index) {
  const auto abort = cann::later().aclrtDeviceTaskAbort;
  const int status = abort(index, 0);
  if (status != 0) cann::detail::warn_call(status, "aclrtDeviceTaskAbort");
  return status == 0;
}

}  // namespace

std::atomic<uint64_t> detail::stopped{0};
std::atomic<bool> detail::unsafe_refused{false};
void set_refuse_unsafe(bool refuse) { detail::unsafe_refused.store(refuse); }

bool stop_device(c10::DeviceIndex index) {
  const NPUGuard guard(index);
  ensure_context();
  TORCH_CHECK_NOT_IMPLEMENTED(cann::later().aclrtDeviceTaskAbort,
                              "npu: this CANN has no aclrtDeviceTaskAbort: a device cannot be stopped");
  // Marked first: no other thread submits while the tasks are dropped.
  const bool was_stopped = detail::stopped.fetch_or(bit_of(index)) & bit_of(index);
  if (abort_tasks(index)) return true;
  if (!was_stopped) detail::stopped.fetch_and(~bit_of(index));
  return false;
}

void restart_device(c10::DeviceIndex index, bool drop) {
  const NPUGuard guard(index);
  ensure_context();
  if (drop) abort_tasks(index);
  detail::stopped.fetch_and(~bit_of(index));
}

void detail::refuse_if_stopped(c10::DeviceIndex index) {
  if (C10_LIKELY(!(stopped.load() & bit_of(index)))) return;
  const auto number = std::to_string(index);
  throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, ACL_ERROR_RT_DEVICE_TASK_ABORT,
                              "npu: FORCE STOP: npu:" + number +
                                  " was stopped (torch.npu.stop_device); torch.npu.restart_device(" + number +
                                  ") makes it usable again");
}

void mark_unsafe(c10::DeviceIndex index) {
  check_device(index);
  marks[index].fetch_add(1);
}
uint32_t detail::marks_of(c10::DeviceIndex index) { return marks[index].load(std::memory_order_relaxed); }

void detail::throw_unsafe(const at::TensorBase& tensor) {
  TORCH_CHECK(
      false, "There is unsafe data in the input tensor (", type_name(tensor.scalar_type()), " of sizes ",
      tensor.sizes(),
      "): it was on the device before torch.npu.restart_device. Copy all of it anew (copy_, load_state_dict), or say "
      "that it is safe (torch_npu.npu._recovery.update_npu_tensor_to_safe)");
}

}  // namespace npu
