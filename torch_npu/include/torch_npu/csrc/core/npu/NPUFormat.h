// Private formats (aclFormat). Memory is ND whatever is asked for: the format is a tag of the storage, which npu_format_cast sets and
// get_npu_format reads. All are c10::Error for a tensor that is not on the npu.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "torch_npu/csrc/core/npu/NPUMacros.h"

namespace at_npu::native {

// ACL_FORMAT_ND (2) unless npu_format_cast gave it another. A view has its storage's.
TORCH_NPU_API int64_t get_npu_format(const at::Tensor& self);
// Sizes of the memory behind the tensor, with the padding of its format: those of the tensor that it was made for, whatever view this is.
TORCH_NPU_API std::vector<int64_t> get_npu_storage_sizes(const at::Tensor& self);
// A contiguous copy with that tag. ValueError for a number that is no format.
TORCH_NPU_API at::Tensor npu_format_cast(const at::Tensor& self, int64_t acl_format);
// A tensor with that tag, not initialized, of the options' dtype and device (the current npu where they name none). The tag is kept in any
// case, with and without keep_format.
TORCH_NPU_API at::Tensor empty_with_format(at::IntArrayRef sizes, const at::TensorOptions& options, int64_t format,
                                           bool keep_format = false);

}  // namespace at_npu::native
