// Data types that callers give by number: PyTorch's, or the vendor's from 256 on. Who uses it: refusals of such arguments.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string>

namespace npu::ops {

// As the caller wrote it: "torch.int64", or the number where it is none of PyTorch's.
std::string numbered_type(int64_t number);

// Refuses all types but those that are implemented.
void check_type(const char* op, const char* name, int64_t number, std::initializer_list<at::ScalarType> known);

}  // namespace npu::ops
