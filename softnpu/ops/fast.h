// Direct loops for the simplest case of the commonest operators: every tensor contiguous, of one type and shape, and small
// enough for one thread. They return false for anything else, and ATen computes it. Results are bit for bit ATen's.
// Who names them: the `fast:` key of ops/aclnn.yaml. Cost: ~10 ns and the loop; ATen's way is ~600 ns.
#pragma once

#include "softnpu/nnopbase/executor.h"

namespace softnpu::ops {

using FastLoop = bool(const nnopbase::Arg* args);

FastLoop fast_add, fast_sub, fast_mul, fast_div;          // (self, other, [alpha], out)
FastLoop fast_adds, fast_subs, fast_muls, fast_divs;      // (self, scalar, [alpha], out)
FastLoop fast_add_, fast_sub_, fast_mul_, fast_div_;      // (self, other, [alpha])
FastLoop fast_adds_, fast_subs_, fast_muls_, fast_divs_;  // (self, scalar, [alpha])
FastLoop fast_relu, fast_relu_, fast_neg;                 // (self, [out])
FastLoop fast_copy_;                                      // (self, source)
FastLoop fast_fill_, fast_zero_, fast_one_;               // (self, [value])
FastLoop fast_threshold_backward;                         // (gradOutput, self, threshold, out), threshold 0

}  // namespace softnpu::ops
