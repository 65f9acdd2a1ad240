// A barrier of a group with a time limit of its own. Who calls it: steps of ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::ops::kernels {

void need_barrier(int64_t ranks, int64_t world_size);

// What `limit` says to the barrier that follows on the stream: milliseconds of `time_out`'s microseconds, the group's own limit where there
// is none; or that nobody is waited for, where elastic_info's first number says that ranks have left, or time_out is no time. end_barrier
// throws then: had begin_barrier, the barrier would be refused by a stream that has failed, or dropped, as the threads' timing had it.
void begin_barrier(const std::optional<at::Tensor>& time_out, const std::optional<at::Tensor>& elastic_info,
                   at::Tensor& limit);
void end_barrier(const std::optional<at::Tensor>& time_out, const std::optional<at::Tensor>& elastic_info);

}  // namespace softnpu::ops::kernels
