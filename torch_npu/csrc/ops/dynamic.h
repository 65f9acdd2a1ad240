// Outputs whose shape only the kernel knows (nonzero, unique, masked_select): room for the largest result, the true shape read
// back after the stream has reached it. Cost: a synchronization. Who uses it: index.cpp, unique.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include "csrc/ops/aclnn_call.h"

namespace npu {

class DynamicOutput : public detail::Owner<aclTensor> {
 public:
  DynamicOutput(at::IntArrayRef largest, at::ScalarType type);
  // After the stream was synchronized: the result, in the shape the kernel wrote.
  at::Tensor take() const;

 private:
  at::Tensor room_;
};

void synchronize_current_stream();

}  // namespace npu
