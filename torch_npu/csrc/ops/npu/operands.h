// Operands of the NPU's own operators before anything is done with them: that those which an operator needs are there, and that all are on
// one device, refused by the argument's name. What it is not: a check of sizes (size_rules.h) or types. Who uses it: generated wrappers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

// A tensor, one that may be missing, or a list. Implicit, so that a call lists its arguments.
class Given {
 public:
  Given(const at::Tensor& t) : tensor_(&t) {}                     // NOLINT(google-explicit-constructor)
  Given(const OptionalTensor& t) : tensor_(t ? &*t : nullptr) {}  // NOLINT(google-explicit-constructor)
  Given(at::TensorList list) : list_(list) {}                     // NOLINT(google-explicit-constructor)
  Given(std::optional<at::TensorList> list)
      : list_(list ? *list : at::TensorList()) {}  // NOLINT(google-explicit-constructor)
  at::TensorList tensors() const { return tensor_ ? at::TensorList(*tensor_) : list_; }

 private:
  const at::Tensor* tensor_ = nullptr;
  at::TensorList list_;
};

// `names`: the arguments', with commas between. Bit i of `needed`: operand i must be there (Python's None arrives as an undefined tensor); of
// `anywhere`: it may be on another device. Numbers of the CPU (0-dim tensors) may stand beside tensors of a device, as everywhere in PyTorch.
// The device of the first npu tensor, or the current one.
c10::DeviceIndex check_operands(const char* op, const char* names, uint64_t needed, uint64_t anywhere,
                                std::initializer_list<Given> operands);

}  // namespace npu::ops
