// A barrier of a group with a time limit of its own. Who calls it: steps of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "softnpu/ops/script.h"

namespace softnpu::ops::kernels {

void need_barrier(int64_t ranks, int64_t world_size);

// Microseconds of `time_out` become the group's limit, whose former one `former` keeps; a null one leaves it. end_barrier throws where
// elastic_info, whose first number says so, is of ranks that have left: had it thrown before, the barrier would not have been queued, and
// the call's error would have been that.
void begin_barrier(const Peers& members, const std::optional<at::Tensor>& time_out, at::Tensor& former);
void end_barrier(const Peers& members, const std::optional<at::Tensor>& time_out,
                 const std::optional<at::Tensor>& elastic_info, const at::Tensor& former);

}  // namespace softnpu::ops::kernels
