// Numbers of a call of an operator of ops/npu.yaml that float32, in which it computes, does not hold: refused by the argument's name, where
// they would else fail on the stream. What it is not: what a number may be (`check:`). Who uses it: generated wrappers.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <initializer_list>
#include <optional>

#include "csrc/ops/npu/operands.h"

namespace npu::ops {

// A number of the call; none where it is not given, or an integer, or complex.
class Number {
 public:
  Number(double value) : value_(value) {}                 // NOLINT(google-explicit-constructor)
  Number(std::optional<double> value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  Number(const at::Scalar& value)                         // NOLINT(google-explicit-constructor)
      : value_(value.isFloatingPoint() ? std::optional(value.toDouble()) : std::nullopt) {}
  Number(const std::optional<at::Scalar>& value)  // NOLINT(google-explicit-constructor)
      : Number(value.value_or(at::Scalar(0))) {}
  std::optional<double> value() const { return value_; }

 private:
  std::optional<double> value_;
};

// `names`: those of the numbers, with commas between. Beside a float64 operand any number is taken.
void check_numbers(const char* op, const char* names, std::initializer_list<Number> numbers,
                   std::initializer_list<Operand> operands);

}  // namespace npu::ops
