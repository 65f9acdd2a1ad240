// Whether a number that stands for a gradient shows data that was corrupted silently: against thresholds and its own history. Who calls it:
// expressions of ops/aclnn.yaml that name it as their header; check_… in phase one.
//
// Results are levels: 0 nothing, 1 a fault, 2 a warning; faults and warnings are logged. detect 1 goes on after a fault, 2 and 3 end the
// stream with an error, for the job to go back to its last checkpoint; 3 also logs every number. Where the pages say nothing: a jump is
// |val - before| over (largest - smallest); the average moves by avg = beta * avg + (1 - beta) * val, whence (avg / (1 - beta) ^ step) of the
// page is read as avg / (1 - beta ^ step), which is the mean of what was seen; mode 3 moves the history, too; and what is a fault
// by itself, not finite or above `first`, does not enter it, nor counts as a step: with one inf or nan in it no later number would be a fault.
// One that is a fault by the history does: else a level that has changed for good would be one for ever.
#pragma once

#include <ATen/core/Tensor.h>

namespace softnpu::ops::kernels {

struct SilentLimits {
  double first, second;                    // above them: a fault, a warning
  double first_jump = 0, second_jump = 0;  // the same of jumps
  int64_t steps = 0;                       // before so many no jump is judged
};

// `seen`: the number before, the smallest, the largest.
void check_silent(const at::Tensor& val, const at::Tensor& seen, const at::Tensor& step, int64_t detect,
                  const at::Tensor& result);
void silent_check(const at::Tensor& val, at::Tensor& seen, at::Tensor& step, const SilentLimits& limits, int64_t detect,
                  at::Tensor& result);

void check_silent_average(const at::Tensor& val, const at::Tensor& largest, const at::Tensor& average,
                          const at::Tensor& step, double beta, int64_t detect, const at::Tensor& result);
void silent_average(const at::Tensor& val, at::Tensor& average, at::Tensor& gradient, at::Tensor& step,
                    const SilentLimits& limits, double beta, int64_t detect, at::Tensor& result);

}  // namespace softnpu::ops::kernels
