// What types an operator computes in or has at all, asked at the call: numbers beside wide unsigned tensors, powers, orders.
// What it is not: what else is asked of operands (operands.h). Who uses it: the wrappers generated from ops/aten.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>

namespace npu {

// The type that a tensor and numbers beside it promote to.
at::ScalarType common_type_of(const at::Tensor& operand, std::initializer_list<std::optional<at::Scalar>> numbers);

// `promoted` of operands.h, and the operand itself where it is a number: 2**63 beside int64 divides as the number that it is.
at::Tensor promoted_tensor(const at::Tensor& operand, at::ScalarType common);

// `operand` in the common type of both, where it is wide unsigned.
at::Tensor promoted_beside(const at::Tensor& operand, const at::Tensor& other);

// No kernel raises wide unsigned integers to powers; the zeroth and the first need none.
void check_power(const at::Tensor& self, const at::Scalar& exponent);

// A vector without elements has none that an index could name. CANN's call, which would say so, is not made for it.
void check_index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source);

// Types that can be put in order. CANN's call, which refuses the others, is not made for an empty result.
void check_ordered(const at::Tensor& self, const char* name);

}  // namespace npu
