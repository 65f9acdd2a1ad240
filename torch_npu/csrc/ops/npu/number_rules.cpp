// See number_rules.h.
#include "csrc/ops/npu/number_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

namespace npu::ops {
namespace {

constexpr double kMost = std::numeric_limits<float>::max();

bool has_double(std::initializer_list<Operand> operands) {
  for (const Operand& operand : operands) {
    for (const at::Tensor& tensor : operand.tensors()) {
      if (tensor.defined() && tensor.scalar_type() == at::kDouble) return true;
    }
  }
  return false;
}

}  // namespace

void check_numbers(const char* op, const char* names, std::initializer_list<Number> numbers,
                   std::initializer_list<Operand> operands) {
  std::string_view rest = names;
  for (const Number& number : numbers) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const std::optional<double> value = number.value();
    if (!value || !std::isfinite(*value) || std::abs(*value) <= kMost || has_double(operands)) continue;
    TORCH_CHECK_VALUE(false, op, ": ", std::string(name), " is ", *value,
                      ", more than float32 holds, in which it computes; give at most ", kMost);
  }
}

}  // namespace npu::ops
