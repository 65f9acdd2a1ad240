// The C functions that compiled models call (torch_npu/csrc/inductor/runtime.h): kernels on streams, memory for weights, devices. What it
// is not: operators (tools/codegen/aoti_shims.py); kernels of the Python wrapper (csrc/python/host_kernel.cpp).
#include "torch_npu/csrc/inductor/runtime.h"

#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "csrc/cann/error.h"
#include "csrc/cann/host_kernel.h"
#include "csrc/core/allocator.h"
#include "csrc/core/device_index.h"
#include "csrc/core/device_wait.h"
#include "csrc/core/lifecycle.h"
#include "csrc/core/stream.h"

namespace {

// Of the memory that models hold: its device, which freeing waits for.
struct Held {
  std::mutex mutex;
  std::unordered_map<void*, c10::DeviceIndex> devices;
};
Held& held() {
  static auto& all = *new Held;  // models may die after everything else
  return all;
}

// What is copied may be another device's, and still be written there.
void wait_for_source(const void* memory) {
  npu::ensure_context();
  aclrtPtrAttributes source{};
  NPU_CHECK(cann::acl().aclrtPointerGetAttributes(memory, &source));
  const bool of_device = source.location.type == ACL_MEM_LOCATION_TYPE_DEVICE;
  if (of_device) npu::wait_for_device(static_cast<c10::DeviceIndex>(source.location.id));
}

}  // namespace

AOTITorchError aoti_torch_npu_launch(int32_t device, int (*run)(void*, char*, size_t), void (*drop)(void*), void* state,
                                     const char* name, int32_t cost) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    std::unique_ptr<void, void (*)(void*)> owner(state, drop);
    const auto softnpuLaunchKernel = cann::host_kernel_launcher();
    TORCH_CHECK_NOT_IMPLEMENTED(softnpuLaunchKernel != nullptr, "npu: ", name,
                                " was compiled for the software NPU, and this CANN cannot run it");
    const npu::NPUGuard guard(npu::device_index(device));
    const auto stream = npu::current_raw_stream();
    const softnpuKernel kernel{run, drop, owner.release(), name, static_cast<softnpuKernelCost>(cost)};
    NPU_CHECK(softnpuLaunchKernel(stream, &kernel));
  });
}

AOTITorchError aoti_torch_npu_malloc(void** ret, size_t bytes) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    *ret = npu::memory::raw_allocate(bytes, npu::current_stream());
    const std::lock_guard lock(held().mutex);
    held().devices[*ret] = npu::current_device();
  });
}

AOTITorchError aoti_torch_npu_free(void* memory) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    c10::DeviceIndex device = -1;
    {
      const std::lock_guard lock(held().mutex);
      const auto place = held().devices.find(memory);
      TORCH_CHECK(place != held().devices.end(), "aoti_torch_npu_free: aoti_torch_npu_malloc gave no such memory");
      device = place->second;
      held().devices.erase(place);
    }
    if (npu::alive()) npu::wait_for_device(device);
    npu::memory::raw_free(memory);
  });
}

AOTITorchError aoti_torch_npu_copy(void* to, const void* from, size_t bytes, int32_t from_host) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    if (!from_host && bytes != 0) wait_for_source(from);
    npu::wait_for_device(npu::current_device());
    npu::ensure_context();
    const auto kind = from_host ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEFAULT;
    NPU_CHECK(cann::acl().aclrtMemcpy(to, bytes, from, bytes, kind));
  });
}

AOTITorchError aoti_torch_npu_current_device(int32_t* ret) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ *ret = npu::current_device(); });
}

AOTITorchError aoti_torch_npu_set_device(int32_t device) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({ npu::set_device(npu::device_index(device)); });
}

AOTITorchError aoti_torch_npu_synchronize_stream(void* stream) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    npu::ensure_context();
    npu::wait_for(stream ? static_cast<aclrtStream>(stream) : npu::current_raw_stream());
  });
}

AOTITorchError aoti_torch_npu_enter(int32_t device, void* stream, NpuFormer* former) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    const c10::DeviceIndex index = npu::device_index(device);
    *former = {0, npu::current_device(), -1};
    if (stream != nullptr) {
      const npu::NPUGuard guard(index);  // nothing stays changed if this throws: nobody leaves then
      if (stream != npu::current_raw_stream()) {
        former->stream = npu::exchange_stream(npu::external_stream(static_cast<aclrtStream>(stream), index)).id();
        former->stream_device = device;
      }
    }
    npu::set_device(index);
  });
}

AOTITorchError aoti_torch_npu_leave(const NpuFormer* former) {
  AOTI_TORCH_CONVERT_EXCEPTION_TO_ERROR_CODE({
    if (former->stream_device >= 0) {
      const c10::Device device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(former->stream_device));
      npu::exchange_stream(c10::Stream(c10::Stream::UNSAFE, device, former->stream));
    }
    npu::set_device(static_cast<c10::DeviceIndex>(former->device));
  });
}
