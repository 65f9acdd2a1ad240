// Copies that other operators need. Who calls it: fill.cpp, fallback.cpp.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu {

// dst.copy_(src) below the dispatcher: any two of CPU and npu devices, dtypes and strides.
void copy(const at::Tensor& dst, const at::Tensor& src, bool non_blocking = false);

// A view of the tensor's bytes: without its lazy conjugation and negation.
at::Tensor raw(const at::Tensor& tensor);

}  // namespace npu
