// See workers.h.
#include "csrc/ops/npu/workers.h"

#include <ATen/ops/cat.h>

#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

using at::Tensor;

void silent_check_into(const Tensor& gradient, const Tensor& val, const SilentHistory& history, const Tensor& count,
                       int64_t steps, const SilentLimits& limits, Tensor& level) {
  const Tensor* const parts[] = {&history.before, &history.smallest, &history.largest};
  std::vector<Tensor> flat;
  for (const Tensor* part : parts) flat.push_back(part->reshape({1}).to(at::kFloat));
  const Tensor seen = at::cat(flat);
  const Tensor step = count.reshape({1}).to(at::kLong, /*non_blocking=*/false, /*copy=*/true);
  const int64_t logs = 1;  // of npuAsdDetect: and goes on
  ACLNN(aclnnSilentCheck)
  (val, gradient, seen, step, steps, limits.first, limits.first_jump, limits.second, limits.second_jump, logs, level);
  for (int64_t i = 0; i < 3; i++) parts[i]->copy_(seen.select(0, i).view_as(*parts[i]));
}

void check_batching(int64_t experts, at::IntArrayRef most, int64_t type, int64_t schedule, int64_t layers) {
  const char* const op = "npu_ffn_worker_batching";
  check_number(op, "token_dtype", type, {0, 1, 2});
  check_number(op, "need_schedule", schedule, {0, 1});
  TORCH_CHECK_VALUE(experts > 0 && experts <= 8192, op, ": expert_num is ", experts, ", not 1 to 8192");
  TORCH_CHECK_VALUE(
      most.size() == 4 && most[0] > 0 && most[0] <= 1024 && most[1] > 0 && most[2] > 0 && most[2] <= 64 && most[3] > 0,
      op, ": max_out_shape is ", most, ", not workers up to 1024, tokens, experts up to 64, columns");
  TORCH_CHECK_VALUE(layers >= 0 && (layers == 0 || experts % layers == 0), op, ": layer_num is ", layers,
                    ", which does not divide expert_num, ", experts);
}

at::ScalarType batched_type(int64_t type) { return type == 0 ? at::kHalf : type == 1 ? at::kBFloat16 : at::kChar; }

Sizes scale_rows(int64_t type, at::IntArrayRef most) { return {type == 2 ? most[0] * most[1] * most[2] : 0}; }

}  // namespace npu::ops
