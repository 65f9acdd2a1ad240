// Operands of the NPU's own operators before anything is done with them: that those which an operator needs are there, and that all are on
// one device, refused by the argument's name. What it is not: a check of sizes (size_rules.h) or types. Who uses it: generated wrappers, and
// checks that take any of the three.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

// A tensor, one that may be missing, or a list, as a list of the tensors that there are. Implicit, so that a call lists its arguments.
class Operand {
 public:
  Operand(const at::Tensor& t) : tensors_(t) {}  // NOLINT(google-explicit-constructor)
  Operand(const OptionalTensor& t)
      : tensors_(npu::ops::given(t) ? at::TensorList(*t) : at::TensorList()) {}  // NOLINT(google-explicit-constructor)
  Operand(at::TensorList list) : tensors_(list) {}                               // NOLINT(google-explicit-constructor)
  Operand(std::optional<at::TensorList> list)
      : tensors_(list ? *list : at::TensorList()) {}   // NOLINT(google-explicit-constructor)
  at::TensorList tensors() const { return tensors_; }  // they may be undefined
  // The tensor of an operand that is none of a list, or null where it is not given.
  const at::Tensor* given() const { return !tensors_.empty() && tensors_[0].defined() ? tensors_.data() : nullptr; }

 private:
  at::TensorList tensors_;
};

// The name at `index` of several, with commas between.
std::string name_of(std::string_view names, size_t index);

// `names`: the arguments', with commas between. Bit i of `needed`: operand i must be there (Python's None arrives as an undefined tensor); of
// `anywhere`: it may be on another device. Numbers of the CPU (0-dim tensors) may stand beside tensors of a device, as everywhere in PyTorch.
// The device of the first npu tensor, or the current one.
c10::DeviceIndex check_operands(const char* op, const char* names, uint64_t needed, uint64_t anywhere,
                                std::initializer_list<Operand> operands);

}  // namespace npu::ops
