// Autocast of the NPU's own operators: which type the operands that a row's `autocast:` names take, and the conversion. What it is not: the
// rules of PyTorch's operators (csrc/ops/autocast.cpp, which converts for both). Who uses it: generated wrappers.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <initializer_list>
#include <optional>
#include <vector>

#include "csrc/ops/npu/operands.h"

namespace npu {
at::Tensor autocast_to(at::ScalarType type, const at::Tensor& tensor);  // weights are converted once a region
at::ScalarType autocast_type();                                         // of this thread, for "npu"
}  // namespace npu

namespace npu::ops {

enum class Autocast {
  kLower,   // the type of autocast: products and attention
  kWidest,  // float32 where one is, else the type of autocast where they differ: sums and products of elements
};

// The type that the operands take; none where one of them is no float32, float16 or bfloat16 on an npu (quantized, float64), or there is none:
// the operator says itself what it does not take.
std::optional<at::ScalarType> autocast_choice(Autocast rule, std::initializer_list<Operand> operands);

inline at::Tensor autocasted(const at::Tensor& tensor, std::optional<at::ScalarType> type) {
  return type && tensor.defined() ? autocast_to(*type, tensor) : tensor;
}
inline OptionalTensor autocasted(const OptionalTensor& tensor, std::optional<at::ScalarType> type) {
  return type && given(tensor) ? OptionalTensor(autocast_to(*type, *tensor)) : tensor;
}
// A weight beside operands that are converted to `type`, or keep theirs where there is none: it may be float32 beside halves, and is
// converted to what they are then if it is another of the three.
at::Tensor autocasted_beside(const at::Tensor& weight, std::optional<at::ScalarType> type,
                             std::initializer_list<Operand> operands);
std::vector<at::Tensor> autocasted(at::TensorList tensors, std::optional<at::ScalarType> type);
inline std::optional<std::vector<at::Tensor>> autocasted(std::optional<at::TensorList> tensors,
                                                         std::optional<at::ScalarType> type) {
  return tensors ? std::optional(autocasted(*tensors, type)) : std::nullopt;
}

}  // namespace npu::ops
