// Silent checks whose history is in tensors of their own, and the results of workers' batches. Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/result.h"

namespace npu::ops {

struct SilentHistory {
  const at::Tensor &before, &smallest, &largest;
};
struct SilentLimits {
  double first, first_jump, second, second_jump;
};
void silent_check_into(const at::Tensor& gradient, const at::Tensor& val, const SilentHistory& history,
                       const at::Tensor& count, int64_t steps, const SilentLimits& limits, at::Tensor& level);

void check_batching(int64_t experts, at::IntArrayRef most, int64_t type, int64_t schedule, int64_t layers);
at::ScalarType batched_type(int64_t type);
Sizes scale_rows(int64_t type, at::IntArrayRef most);

}  // namespace npu::ops
