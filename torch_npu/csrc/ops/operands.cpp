// Bodies of operands.h.
#include "csrc/ops/operands.h"

#include <ATen/native/BinaryOps.h>
#include <ATen/native/BucketizationUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/result_type_native.h>
#include <ATen/ops/view_as_real_native.h>

#include <algorithm>
#include <string>

#include "csrc/core/type_name.h"
#include "csrc/ops/params.h"

namespace npu {

void check_divisor(const at::Tensor& self, const at::Tensor& other) {
  if (!other.is_cpu() || other.dim() != 0 || self.numel() == 0) return;
  const at::ScalarType type = at::native::result_type(self, other);
  if (!c10::isIntegralType(type, /*includeBool=*/false)) return;
  const at::Scalar divisor = as_copied(number_of(other), type);
  TORCH_CHECK(divisor.isFloatingPoint() || divisor.isComplex() || !divisor.equal(0), "ZeroDivisionError");
}

void check_type(const char* op, const char* operands, at::ScalarType type,
                std::initializer_list<at::ScalarType> takes) {
  if (C10_LIKELY(std::ranges::find(takes, type) != takes.end())) return;
  std::string names;
  for (const at::ScalarType taken : takes) names.append(names.empty() ? "" : ", ").append(type_name(taken));
  TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": the data type of ", operands, ", ", type_name(type),
                              ", is not one that the operator takes: ", names);
}
void check_type(const char* op, const char* operand, const at::Tensor& tensor,
                std::initializer_list<at::ScalarType> takes) {
  if (tensor.numel() != 0) check_type(op, operand, tensor.scalar_type(), takes);
}

void check_computed(const char* kernel, at::ScalarType type, std::initializer_list<at::ScalarType> without) {
  if (C10_LIKELY(std::ranges::find(without, type) == without.end())) return;
  TORCH_CHECK_NOT_IMPLEMENTED(false, "\"", kernel, "\" not implemented for '", type, "'");
}

namespace {

// What is computed of two operands, or, of none, a type that nobody refuses.
at::ScalarType computed_type(const at::Tensor& self, const at::Tensor& other) {
  if (self.numel() == 0 || other.numel() == 0) return at::ScalarType::Undefined;
  return at::native::result_type(self, other);
}

}  // namespace

void check_logaddexp(const char* kernel, const at::Tensor& self, const at::Tensor& other) {
  const at::ScalarType type = computed_type(self, other);
  if (c10::isIntegralType(type, /*includeBool=*/true)) check_computed(kernel, type, {type});
}

void check_shift(const char* kernel, const at::Tensor& self, const at::Tensor& other) {
  check_computed(kernel, computed_type(self, other), kWideUnsigned);
}

void check_quotient(const char* kernel, const at::Tensor& self, const at::Tensor& other) {
  check_divisor(self, other);
  check_computed(kernel, computed_type(self, other), {at::kBool, at::kComplexFloat, at::kComplexDouble});
}

void check_isin(const at::Tensor& elements) {
  if (elements.numel() == 0) return;
  const at::ScalarType type = elements.scalar_type();
  TORCH_CHECK(type != at::kBool && !c10::isComplexType(type), "Unsupported input type encountered for isin(): ", type);
  check_computed("isin_default_cpu", type, kWideUnsigned);
}

void check_sortable(const char* op, const at::Tensor& self, bool takes_bool) {
  TORCH_CHECK(!self.is_complex(), op, ": the data type of self, ", type_name(self),
              ", has no order; give self.abs() or a part, self.real");
  TORCH_CHECK(takes_bool || self.scalar_type() != at::kBool, op,
              ": the data type of self, torch.bool, is not one that the operator takes; give self.to(torch.uint8)");
}

void check_alpha(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  at::native::alpha_check(at::native::result_type(self, other), alpha);
}

namespace {

void check_addr_number(const at::Scalar& number, at::ScalarType type, const char* name) {
  TORCH_CHECK(!number.isBoolean() || type == at::kBool, "Boolean ", name, " only supported for Boolean results.");
  TORCH_CHECK(c10::isFloatingType(type) || c10::isComplexType(type) || number.isIntegral(/*includeBool=*/true),
              "For integral input tensors, argument ", name, " must not be a floating point number.");
  check_fits(number, type);
}

}  // namespace

void check_addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                const at::Scalar& alpha) {
  const at::ScalarType type = common_type({self, vec1, vec2});
  check_addr_number(beta, type, "beta");
  check_addr_number(alpha, type, "alpha");
}

void check_hardtanh(const at::Tensor& self, const at::Scalar& min, const at::Scalar& max) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
  TORCH_CHECK(self.scalar_type() != at::kByte || (min.toLong() >= 0 && max.toLong() >= 0),
              "cannot do hardtanh on an unsigned type with negative limits");
}

void check_searchsorted(const at::Tensor& sorted_sequence, const at::Tensor& self, bool out_int32, bool right,
                        std::optional<std::string_view> side, const std::optional<at::Tensor>& sorter) {
  const at::Tensor out = at::empty({0}, at::TensorOptions(out_int32 ? at::kInt : at::kLong));  // asked for its type
  at::native::searchsorted_pre_check(sorted_sequence, self, out, out_int32, right, side, sorter.value_or(at::Tensor()));
}

at::ScalarType common_type(std::initializer_list<std::reference_wrapper<const at::Tensor>> operands) {
  at::native::ResultTypeState state = {};
  for (const at::Tensor& operand : operands) state = at::native::update_result_type_state(operand, state);
  return at::native::result_type(state);
}

at::Tensor promoted(const at::Tensor& operand, at::ScalarType common) {
  return is_wide_unsigned(operand) ? operand.to(common) : operand;
}

at::Tensor halves(const at::Tensor& tensor, const at::Tensor& like) {
  return at::native::view_as_real(tensor.to(like.device(), at::kComplexHalf).resolve_conj());
}

}  // namespace npu
