// Bessel and Airy functions, the inverse of the normal distribution: PyTorch's own formulas, run with tensors for numbers
// (lane.h, tools/codegen/special.py). Who calls it: rows of ops/aten.yaml.
#include "csrc/ops/composed/lane.h"
//
#include "aten/special_functions.h"

#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/rounded.h"

namespace npu {

namespace {

enum class Below { kAny, kEven, kOdd, kNone };  // what a function is below zero

template <class F>
at::Tensor evaluate_lanes(Below below, F&& function, const at::Tensor& self) {
  const at::Tensor x = wide(self);
  if (below == Below::kAny) return rounded(lane::explore(function, x, false), self);
  at::Tensor result = lane::explore(function, x.abs(), true);
  if (below == Below::kOdd) result = where(x.lt(0), result.neg(), result);
  if (below == Below::kNone) result = where(x.lt(0), NAN, result);
  return rounded(result, self);
}

}  // namespace

#define SPECIAL(name, function, below)                                                                  \
  at::Tensor name(const at::Tensor& x) {                                                                \
    return evaluate_lanes(Below::below, [](lane::Lane v) { return lane::function<lane::Lane>(v); }, x); \
  }
SPECIAL(airy_ai, airy_ai_forward, kAny)
SPECIAL(bessel_j0, bessel_j0_forward, kEven)
SPECIAL(bessel_j1, bessel_j1_forward, kOdd)
SPECIAL(bessel_y0, bessel_y0_forward, kNone)
SPECIAL(bessel_y1, bessel_y1_forward, kNone)
SPECIAL(modified_bessel_i0, modified_bessel_i0_forward, kEven)
SPECIAL(modified_bessel_i1, modified_bessel_i1_forward, kOdd)
SPECIAL(modified_bessel_k0, modified_bessel_k0_forward, kNone)
SPECIAL(modified_bessel_k1, modified_bessel_k1_forward, kNone)
SPECIAL(scaled_modified_bessel_k0, scaled_modified_bessel_k0_forward, kNone)
SPECIAL(scaled_modified_bessel_k1, scaled_modified_bessel_k1_forward, kNone)
SPECIAL(spherical_bessel_j0, spherical_bessel_j0_forward, kEven)
SPECIAL(ndtri, calc_ndtri, kAny)
#undef SPECIAL

}  // namespace npu
