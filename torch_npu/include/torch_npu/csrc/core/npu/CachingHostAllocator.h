// Pinned host memory from torch_npu's cache: what tensor.pin_memory() uses. Thread-safe.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "torch_npu/csrc/core/npu/NPUStream.h"

namespace at_npu::native {

// Never null.
TORCH_NPU_API c10::Allocator* getCachingHostAllocator();
// The block of `pointer` (with its DataPtr's context) is not given out again before the stream has passed what it has now. Returns
// ACL_ERROR_NONE, or ACL_ERROR_INVALID_PARAM for memory that is not of this allocator.
TORCH_NPU_API aclError CachingHostAllocator_recordEvent(void* pointer, void* context, c10_npu::NPUStream stream);

}  // namespace at_npu::native
