// What PyTorch asks of an operator's operands that neither its meta function nor CANN's phase one says at the call: numbers that
// become zero divisors, alpha's kind, bounds, and operands of types that CANN's pointwise operators do not take beside others.
// What it is not: values of aclnn parameters (params.h). Who uses it: the wrappers generated from ops/aten.yaml.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace npu {

// A kernel of the CPU divides integers by a number that it has put into their type first, and 2**40 is 0 in int8. Throws
// "ZeroDivisionError" as it does; a divisor in device memory is not looked at, which would wait for the device.
void check_divisor(const at::Tensor& self, const at::Tensor& other);

// `types:` of a composed operator's row, what phase one is to a function of CANN: an error at the call for a type that it does not
// compute. `operands` are the tensors' names; of one tensor without elements nothing is computed.
void check_type(const char* op, const char* operands, at::ScalarType type, std::initializer_list<at::ScalarType> takes);
void check_type(const char* op, const char* operand, const at::Tensor& tensor,
                std::initializer_list<at::ScalarType> takes);

// Types that CANN has a meaning for and PyTorch's kernel has not: refused at the call in the CPU's words. Of a tensor without elements
// nothing is computed.
void check_computed(const char* kernel, at::ScalarType type, std::initializer_list<at::ScalarType> without);
inline void check_computed(const char* kernel, const at::Tensor& self, std::initializer_list<at::ScalarType> without) {
  if (self.numel() != 0) check_computed(kernel, self.scalar_type(), without);
}
// The same of the type that two operands promote to: whole numbers, wide unsigned ones, and quotients that are rounded, which are
// none of booleans and complex numbers (and check_divisor).
void check_logaddexp(const char* kernel, const at::Tensor& self, const at::Tensor& other);
void check_shift(const char* kernel, const at::Tensor& self, const at::Tensor& other);
void check_quotient(const char* kernel, const at::Tensor& self, const at::Tensor& other);
void check_isin(const at::Tensor& elements);
inline constexpr std::initializer_list<at::ScalarType> kWideUnsigned = {at::kUInt16, at::kUInt32, at::kUInt64};
inline constexpr std::initializer_list<at::ScalarType> kIntegers = {at::kByte, at::kChar, at::kShort, at::kInt,
                                                                    at::kLong};

// Types that can be sorted, where PyTorch's meta function speaks of the CPU.
void check_sortable(const char* op, const at::Tensor& self, bool takes_bool);

// at::native::alpha_check for the type that the operands promote to.
void check_alpha(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha);
void check_addr(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta,
                const at::Scalar& alpha);

void check_hardtanh(const at::Tensor& self, const at::Scalar& min, const at::Scalar& max);

void check_searchsorted(const at::Tensor& sorted_sequence, const at::Tensor& self, bool out_int32, bool right,
                        std::optional<std::string_view> side, const std::optional<at::Tensor>& sorter);

// PyTorch computes with uint16, uint32 and uint64 in the type that they promote to; CANN's pointwise operators take few of
// them. Where one is beside another type, the operands are given in the common one.
inline bool is_wide_unsigned(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kUInt16 || type == at::kUInt32 || type == at::kUInt64;
}
template <class... T>
bool wants_promotion(const T&... operands) {
  return (is_wide_unsigned(operands) || ...);
}
at::ScalarType common_type(std::initializer_list<std::reference_wrapper<const at::Tensor>> operands);
at::Tensor promoted(const at::Tensor& operand,
                    at::ScalarType common);  // the operand itself but where it is wide unsigned

// The real and imaginary parts, on the device, of what becomes complex32: two float16 in a last dimension.
at::Tensor halves(const at::Tensor& tensor, const at::Tensor& like);

}  // namespace npu
