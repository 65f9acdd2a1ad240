// The untemplated half of autocast.h.
#include "csrc/ops/npu/autocast.h"

#include <algorithm>

namespace npu::ops {
namespace {

bool converted(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) &&
         tensor.device().type() == c10::DeviceType::PrivateUse1;
}

}  // namespace

std::optional<at::ScalarType> autocast_choice(Autocast rule, std::initializer_list<Operand> operands) {
  std::optional<at::ScalarType> first;
  bool differ = false, wide = false;
  for (const Operand& operand : operands) {
    for (const at::Tensor& tensor : operand.tensors()) {
      if (!tensor.defined()) continue;
      if (!converted(tensor)) return std::nullopt;
      const at::ScalarType type = tensor.scalar_type();
      differ = differ || (first && *first != type);
      wide = wide || type == at::kFloat;
      first = first ? first : type;
    }
  }
  if (!first) return std::nullopt;
  if (rule == Autocast::kLower) return autocast_type();
  return differ ? std::optional(wide ? at::kFloat : autocast_type()) : std::nullopt;
}

at::Tensor autocasted_beside(const at::Tensor& weight, std::optional<at::ScalarType> type,
                             std::initializer_list<Operand> operands) {
  if (!weight.defined() || !converted(weight) || weight.scalar_type() == at::kFloat) return weight;
  for (const Operand& operand : operands) {
    for (const at::Tensor& tensor : operand.tensors()) {
      if (!tensor.defined()) continue;
      if (!converted(tensor)) return weight;
      if (!type) type = tensor.scalar_type();
    }
  }
  return autocasted(weight, type);
}

std::vector<at::Tensor> autocasted(at::TensorList tensors, std::optional<at::ScalarType> type) {
  std::vector<at::Tensor> out;
  out.reserve(tensors.size());
  std::transform(tensors.begin(), tensors.end(), std::back_inserter(out),
                 [&](const at::Tensor& tensor) { return autocasted(tensor, type); });
  return out;
}

}  // namespace npu::ops
