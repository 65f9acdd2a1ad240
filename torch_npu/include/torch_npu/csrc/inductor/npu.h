// What a model that AOTInductor made for the npu includes first, in the place of what PyTorch has for the CPU. PyTorch's class
// of models knows the devices of its own list and no other: it is compiled as for the second of them, by whose names
// the functions of libtorch_npu.so go here, and nothing of that device's is included or linked.
#pragma once

#include <torch/csrc/inductor/aoti_runtime/device_utils.h>  // before USE_CUDA: a stream is a void*

#include "runtime.h"

#define USE_CUDA 1
#define AOTI_RUNTIME_CUDA_CHECK(call) call
#define aoti_torch_device_type_cuda aoti_torch_device_type_privateuse1

// Failures are thrown where they are met: the status is always success.
using cudaError_t = int;
enum : cudaError_t { cudaSuccess, cudaErrorNotReady };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDefault = 4 };
inline const char* cudaGetErrorString(cudaError_t) { return "an error of the npu"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

inline cudaError_t cudaMalloc(void** memory, size_t bytes) {
  NPU_CALL(aoti_torch_npu_malloc, memory, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {  // in a destructor
  static const auto found = npu_find<decltype(aoti_torch_npu_free)>("aoti_torch_npu_free");
  const bool freed = found(memory) == AOTI_TORCH_SUCCESS;
  return freed ? cudaSuccess : cudaErrorNotReady;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  NPU_CALL(aoti_torch_npu_copy, to, from, bytes, kind == cudaMemcpyHostToDevice);
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int32_t* device) {
  NPU_CALL(aoti_torch_npu_current_device, device);
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int32_t device) {
  NPU_CALL(aoti_torch_npu_set_device, device);
  return cudaSuccess;
}

// A run's end. Its model may run again before that: what it uses is its own, and memory is given out in the stream's order.
struct NpuRunEnd {
  void* stream;
};
using cudaEvent_t = NpuRunEnd*;
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new NpuRunEnd{};
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, void* stream) {
  event->stream = stream;
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  NPU_CALL(aoti_torch_npu_synchronize_stream, event->stream);
  return cudaSuccess;
}

// Kernels are functions of the model itself.
using CUmodule = void*;
using CUresult = int;
enum : CUresult { CUDA_SUCCESS };
inline CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
inline void cuGetErrorString(CUresult, const char**) {}

// A kernel takes an argument's address as it is.
inline void npu_require(AtenTensorHandle tensor, int position, int32_t device) {
  int32_t type = -1, index = -1;
  npu_checked(aoti_torch_get_device_type(tensor, &type));
  npu_checked(aoti_torch_get_device_index(tensor, &index));
  if (type == aoti_torch_device_type_privateuse1() && index == device) return;
  throw std::runtime_error("argument " + std::to_string(position) + " of this model must be on npu:" +
                           std::to_string(device) + ": move it there, or load the model for its device (device_index)");
}

// A number that was the CPU's is read at the call, which does not wait for a stream.
inline void npu_require_host(AtenTensorHandle tensor, int position) {
  int32_t type = -1;
  npu_checked(aoti_torch_get_device_type(tensor, &type));
  if (type == aoti_torch_device_type_cpu()) return;
  throw std::runtime_error("argument " + std::to_string(position) +
                           " of this model must be on the CPU, as it was when the model was made: move it there");
}

#include <torch/csrc/inductor/aoti_include/common.h>

#include "shims.h"
