// What compiled models ask of libtorch_npu.so beside operators: kernels put on streams, memory for weights, devices. C functions, as
// torch/csrc/inductor/aoti_torch/c/shim.h has them: 0, or an error whose text is PyTorch's last one. A model calls them by NPU_CALL.
#pragma once

#include "find.h"

#ifdef __cplusplus
extern "C" {
#endif

// On the current stream of `device`. `run` and `drop` are called as softnpuKernel says; `drop` also if this fails.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_npu_launch(int32_t device,
                                                       int (*run)(void* state, char* message, size_t room),
                                                       void (*drop)(void* state), void* state, const char* name,
                                                       int32_t cost);
// Device memory of the current device. Freeing waits for the device.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_npu_malloc(void** ret, size_t bytes);
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_npu_free(void* memory);
// To memory of the current device, from there or from the host's, when the device is idle.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_npu_copy(void* to, const void* from, size_t bytes, int32_t from_host);
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_npu_current_device(int32_t* ret);
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_npu_set_device(int32_t device);
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_npu_synchronize_stream(void* stream);  // null: the current one
// The device becomes current and, unless it is null, the stream on it. `leave` takes what `enter` gave.
struct NpuFormer {
  int64_t stream;
  int32_t device, stream_device;  // -1: no stream was entered
};
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_npu_enter(int32_t device, void* stream, NpuFormer* former);
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_npu_leave(const NpuFormer* former);

#ifdef __cplusplus
}
#endif

// NPU_CALL(aoti_torch_npu_set_device, 1): that function of the library, found at its first call; throws.
#define NPU_CALL(function, ...)                                         \
  do {                                                                  \
    static const auto found_ = npu_find<decltype(function)>(#function); \
    npu_checked(found_(__VA_ARGS__));                                   \
  } while (false)

class NpuStreamGuard {
 public:
  NpuStreamGuard(void* stream, int32_t device) { NPU_CALL(aoti_torch_npu_enter, device, stream, &former_); }
  explicit NpuStreamGuard(int32_t device) : NpuStreamGuard(nullptr, device) {}
  ~NpuStreamGuard() {
    static const auto leave = npu_find<decltype(aoti_torch_npu_leave)>("aoti_torch_npu_leave");
    leave(&former_);
  }
  NpuStreamGuard(const NpuStreamGuard&) = delete;
  NpuStreamGuard& operator=(const NpuStreamGuard&) = delete;
  void set_index(int32_t device) { NPU_CALL(aoti_torch_npu_set_device, device); }

 private:
  NpuFormer former_{};
};
