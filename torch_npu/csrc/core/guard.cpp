// The device guard PyTorch knows: c10::DeviceGuard, StreamGuard, c10::Event, torch.Stream, torch.Event and torch.accelerator
// reach npu through it. Not here: what the calls do (device.h, stream.h, event.h, allocator.h); this file only translates.
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "csrc/core/allocator.h"
#include "csrc/core/device.h"
#include "csrc/core/event.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"
#include "csrc/core/sync_debug.h"
#include "csrc/core/torch_version.h"

namespace npu {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

Device npu_device(DeviceIndex index) { return {DeviceType::PrivateUse1, index}; }

DeviceIndex index_of(Device device) {
  TORCH_CHECK(device.type() == DeviceType::PrivateUse1, "npu: expected an npu device, got ", device);
  return device.has_index() ? device.index() : current_device();
}

struct GuardImpl final : AsksForStreams<c10::impl::DeviceGuardImplInterface> {
  DeviceType type() const override { return DeviceType::PrivateUse1; }

  Device exchangeDevice(Device device) const override {
    const DeviceIndex former = current_device();
    setDevice(device);
    return npu_device(former);
  }
  Device getDevice() const override { return npu_device(current_device()); }
  void setDevice(Device device) const override {
    const DeviceIndex index = index_of(device);
    if (index != current_device()) set_device(index);
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index() && device.index() < kMaxDevices) detail::thread_state.current = device.index();
  }
  DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::DeviceCapability getDeviceCapability(Device) const override { return {}; }

  Stream getStream(Device device) const override { return current_stream(index_of(device)); }
  Stream getDefaultStream(Device device) const override { return default_stream(index_of(device)); }
  Stream getStreamFromGlobalPool(Device device, bool high_priority) const override {
    return stream_from_pool(index_of(device), high_priority ? -1 : 0);
  }
  Stream getNewStream(Device device, int priority) const override {
    return stream_from_pool(index_of(device), priority);
  }
  Stream exchangeStream(Stream stream) const override { return exchange_stream(stream); }
  void* getStreamNativeHandle(const Stream stream) const override { return raw_stream(stream); }
  bool queryStream(const Stream& stream) const override { return query_stream(stream); }
  void synchronizeStream(const Stream& stream) const override {
    about_to_wait();
    synchronize_stream(stream);
  }
  bool isStreamCapturing(const Stream& stream) const override { return is_capturing(stream); }
  void synchronizeDevice(const DeviceIndex index) const override {
    synchronize_device(index == -1 ? current_device() : index);
  }

  void record(void** event, const Stream& stream, const DeviceIndex device, const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "npu: an event of npu:", static_cast<int>(device),
                " cannot be recorded on a stream of ", stream.device());
    if (!*event) *event = create_event(stream.device_index(), flag == c10::EventFlag::BACKEND_DEFAULT);
    record_event(*event, stream);
  }
  void block(void* event, const Stream& stream) const override {
    if (event) wait_event(event, stream);
  }
  bool queryEvent(void* event) const override { return !event || query_event(event); }
  void synchronizeEvent(void* event) const override {
    if (event) synchronize_event(event);
  }
  void destroyEvent(void* event, const DeviceIndex device) const noexcept override {
    destroy_event(event, device == -1 ? current_device() : device);
  }
  double elapsedTime(void* start, void* end, const DeviceIndex) const override {
    TORCH_CHECK(start && end, "npu: both events must be recorded before the time between them is asked");
    return elapsed_ms(start, end);
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override {
    device_allocator()->recordStream(data, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

}  // namespace
}  // namespace npu
