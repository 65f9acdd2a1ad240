// What PyTorch asks a back end for by hooks: initialization, the default generator, pinned memory, resizing a storage.
// Not here: what the calls do; this file only translates.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "csrc/cann/error.h"
#include "csrc/core/device.h"
#include "csrc/core/generator.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/pinned.h"
#include "csrc/core/storage.h"

namespace npu {
namespace {

using c10::DeviceIndex;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return npu::device_count() > 0; }
  bool hasPrimaryContext(DeviceIndex index) const override { return has_context(index); }
  void init() const override { initialize(); }
  DeviceIndex deviceCount() const override { return npu::device_count(); }
  void setCurrentDevice(DeviceIndex index) const override { set_device(index); }
  DeviceIndex getCurrentDevice() const override { return current_device(); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    const DeviceIndex former = current_device();
    if (index >= 0 && index != former) set_device(index);
    return former;
  }
  // As on CUDA, a device nobody used is not touched; here setting one touches none.
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return exchangeDevice(index); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  const at::Generator& getDefaultGenerator(DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(DeviceIndex index) const override { return new_generator(index); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes);
  }

  at::Device getDeviceFromPtr(void* data) const override {
    initialize();
    TORCH_CHECK_NOT_IMPLEMENTED(cann::acl().aclrtPointerGetAttributes,
                                "npu: this CANN has no aclrtPointerGetAttributes");
    aclrtPtrAttributes attributes{};
    NPU_CHECK(cann::acl().aclrtPointerGetAttributes(data, &attributes));
    TORCH_CHECK(attributes.location.type == ACL_MEM_LOCATION_TYPE_DEVICE, "npu: ", data,
                " is not memory of an npu device");
    return {c10::DeviceType::PrivateUse1, static_cast<DeviceIndex>(attributes.location.id)};
  }
};

const bool hooks_registered =
    (at::RegisterPrivateUse1HooksInterface(new Hooks()), true);  // leaked: asked until the process is gone

}  // namespace
}  // namespace npu
