// Bodies of numbers.h.
#include "csrc/ops/numbers.h"

#include <ATen/ScalarOps.h>
#include <ATen/native/TypeProperties.h>

#include "csrc/ops/operands.h"

namespace npu {

at::ScalarType common_type_of(const at::Tensor& operand, std::initializer_list<std::optional<at::Scalar>> numbers) {
  at::native::ResultTypeState state = at::native::update_result_type_state(operand, {});
  for (const std::optional<at::Scalar>& number : numbers) {
    if (number) state = at::native::update_result_type_state(at::native::wrapped_scalar_tensor(*number), state);
  }
  return at::native::result_type(state);
}

at::Tensor promoted_tensor(const at::Tensor& operand, at::ScalarType common) {
  return operand.unsafeGetTensorImpl()->is_wrapped_number() ? operand : promoted(operand, common);
}

at::Tensor promoted_beside(const at::Tensor& operand, const at::Tensor& other) {
  return is_wide_unsigned(operand) ? operand.to(common_type({operand, other})) : operand;
}

void check_power(const at::Tensor& self, const at::Scalar& exponent) {
  if (exponent.equal(0.0) || exponent.equal(1.0)) return;
  const bool whole = is_wide_unsigned(self) && c10::isIntegralType(common_type_of(self, {exponent}), true);
  const bool small = self.scalar_type() == at::kComplexHalf || c10::isFloat8Type(self.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(!whole && !small, "\"pow\" not implemented for '", self.scalar_type(), "'");
}

void check_index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source) {
  const bool of_a_vector = self.dim() == 1 && (dim == 0 || dim == -1) && source.numel() == index.numel();
  TORCH_CHECK_INDEX(!of_a_vector || self.numel() != 0 || index.numel() == 0, "index out of range in self");
}

void check_ordered(const at::Tensor& self, const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() != at::kBool && !self.is_complex() && !is_wide_unsigned(self), "\"",
                              name, "\" not implemented for '", self.scalar_type(), "'");
}

}  // namespace npu
