// c10_npu's streams and devices for extensions (core/npu/NPUStream.h, core/npu/NPUFunctions.h, core/npu/DeviceUtils.h): csrc/core's, in
// the vendor's names.
#include <c10/util/Exception.h>

#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"
#include "csrc/core/sync_debug.h"
#include "torch_npu/csrc/core/npu/DeviceUtils.h"
#include "torch_npu/csrc/core/npu/NPUFunctions.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace c10_npu {

aclrtStream NPUStream::stream() const { return npu::raw_stream(stream_); }

NPUStream getCurrentNPUStream(c10::DeviceIndex index) {
  return NPUStream(NPUStream::UNCHECKED, npu::current_stream(index));
}
NPUStream getDefaultNPUStream(c10::DeviceIndex index) {
  return NPUStream(NPUStream::UNCHECKED, npu::default_stream(index));
}
NPUStream getNPUStreamFromPool(c10::DeviceIndex index) { return getStreamFromPool(false, index); }
NPUStream getStreamFromPool(bool high_priority, c10::DeviceIndex index) {
  return NPUStream(NPUStream::UNCHECKED, npu::stream_from_pool(index, high_priority ? -1 : 0));
}
NPUStream getStreamFromExternal(aclrtStream external, c10::DeviceIndex index) {
  return NPUStream(NPUStream::UNCHECKED, npu::external_stream(external, index));
}
void setCurrentNPUStream(NPUStream stream) { npu::exchange_stream(stream.unwrap()); }

bool npuSynchronizeDevice(bool check_error) {
  if (check_error) {
    device_synchronize();
    return true;
  }
  try {
    device_synchronize();
  } catch (const c10::Error&) {  // the caller asked for an answer instead
    return false;
  }
  return true;
}

std::ostream& operator<<(std::ostream& out, const NPUStream& stream) { return out << stream.unwrap(); }

c10::DeviceIndex device_count() noexcept { return npu::device_count(); }
c10::DeviceIndex device_count_ensure_non_zero() {
  const c10::DeviceIndex count = npu::device_count();
  TORCH_CHECK(count > 0, "npu: there is no NPU on this machine, or CANN cannot be used: see the warning before this");
  return count;
}
c10::DeviceIndex current_device() { return npu::current_device(); }
void set_device(c10::DeviceIndex device) { npu::set_device(device); }
aclError GetDevice(int32_t* device) {
  TORCH_CHECK(device, "npu: GetDevice needs an int32_t to write to, got a null pointer");
  *device = npu::current_device();
  return ACL_ERROR_NONE;
}
aclError SetDevice(c10::DeviceIndex device) {
  npu::set_device(device);
  return ACL_ERROR_NONE;
}
aclError MaybeSetDevice(c10::DeviceIndex device) {
  if (device >= 0) npu::set_device(device);
  return ACL_ERROR_NONE;
}
int ExchangeDevice(int device) {
  const int former = npu::current_device();
  if (device >= 0 && device != former) {
    TORCH_CHECK(device < npu::kMaxDevices, "npu: there is no device ", device);
    npu::set_device(static_cast<c10::DeviceIndex>(device));
  }
  return former;
}

void device_synchronize() { npu::synchronize_device(npu::current_device()); }
void stream_synchronize(aclrtStream stream) {
  npu::ensure_context();
  npu::wait_for(stream);
}

void WarningState::set_sync_debug_mode(SyncDebugMode mode) {
  npu::detail::sync_debug = static_cast<npu::SyncDebug>(mode);
}
SyncDebugMode WarningState::get_sync_debug_mode() { return static_cast<SyncDebugMode>(npu::detail::sync_debug.load()); }
WarningState& warning_state() {
  static WarningState state;
  return state;
}
void warn_or_error_on_sync() { npu::about_to_wait(); }

}  // namespace c10_npu

namespace torch_npu::utils {

void maybe_initialize_npu(const at::Device& device) {
  if (!is_npu(device)) return;
  npu::initialize();
  if (device.has_index()) npu::check_device(device.index());
}

}  // namespace torch_npu::utils
