// Values in the type that an operator computes in: its operands', the default one for integers. A result of a wider type given by
// the caller shows that type's rounding, as the CPU's does. Who uses it: the compositions of special functions.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>

namespace npu {

inline at::Tensor rounded(const at::Tensor& values, const at::Tensor& operand) {
  return values.to(operand.is_floating_point() ? operand.scalar_type() : at::get_default_dtype_as_scalartype());
}

}  // namespace npu
