// New tensors on the current device, for operators' outputs: `at::Tensor out = empty(self.sizes(), self.scalar_type());`
// The contents are undefined. What it is not: the operators aten::empty and aten::empty_strided (csrc/ops/factory.cpp), which
// check options and end here. Cost: about an allocation from the cache and two small objects.
#pragma once

#include <ATen/core/Tensor.h>
#include "csrc/cann/export.h"

#include <optional>

namespace npu {

NPU_API at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype,
                         std::optional<at::MemoryFormat> memory_format = std::nullopt);
at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);

// Of the tensor's shape and, as torch.empty_like, of its order of dimensions: its own strides where it is dense.
NPU_API at::Tensor empty_like(const at::Tensor& tensor, std::optional<at::ScalarType> dtype = std::nullopt);

}  // namespace npu
