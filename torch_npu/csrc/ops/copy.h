// Copies that other operators need. Who calls it: fill.cpp, fallback.cpp, npu/compose.cpp.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu {

// dst.copy_(src) below the dispatcher: any two of CPU and npu devices, dtypes and strides.
void copy(const at::Tensor& dst, const at::Tensor& src, bool non_blocking = false);

// While one lives, copies of this thread to and from Bits8 make and read hifloat8, which users name and never hold so; else, as with PyTorch on
// the CPU, Bits8 is copied to Bits8 alone.
struct CodesAllowed {
  CodesAllowed();
  ~CodesAllowed();
};

// A view of the tensor's bytes: without its lazy conjugation and negation.
at::Tensor raw(const at::Tensor& tensor);

}  // namespace npu
