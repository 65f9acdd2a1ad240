// Operators over lists of tensors: when one aclnn call does, and what it needs. Who uses it: wrappers generated from the
// _foreach_ rows of ops/aten.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace npu {

// One call does if every tensor is floating-point, dense, of one dtype and one npu device, and the lists agree in length and,
// position by position, in shape and strides. Everything else takes PyTorch's loop over the single operator.
bool alike(std::initializer_list<at::TensorList> lists);
bool alike(std::initializer_list<at::TensorList> lists, const at::Scalar& number);
bool alike(std::initializer_list<at::TensorList> lists, at::ArrayRef<at::Scalar> numbers);

// New tensors of the same shapes, strides and dtypes.
std::vector<at::Tensor> like_each(at::TensorList tensors);

// The numbers as a tensor beside `self`, in its dtype.
at::Tensor numbers_on_device(at::ArrayRef<at::Scalar> numbers, at::TensorList self);

}  // namespace npu
