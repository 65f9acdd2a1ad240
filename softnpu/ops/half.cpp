// See half.h.
#include "softnpu/ops/half.h"

#include <ATen/Parallel.h>

#include "softnpu/ops/half_loops.h"

namespace softnpu::ops::kernels {

namespace {

constexpr int64_t kGrain = 65536;

}  // namespace

bool convert_half(const at::Tensor& from, at::Tensor& to) {
  static const bool can = converts_halves();
  const bool widen = from.scalar_type() == at::kHalf && to.scalar_type() == at::kFloat;
  const bool narrow = from.scalar_type() == at::kFloat && to.scalar_type() == at::kHalf;
  if (!can || !(widen || narrow) || from.sizes() != to.sizes() || from.strides() != to.strides() ||
      !to.is_non_overlapping_and_dense()) {
    return false;
  }
  const void* source = from.const_data_ptr();
  void* target = to.mutable_data_ptr();
  at::parallel_for(0, to.numel(), kGrain, [=](int64_t begin, int64_t end) {
    if (widen) {
      widen_halves(static_cast<const uint16_t*>(source) + begin, static_cast<float*>(target) + begin, end - begin);
    } else {
      narrow_floats(static_cast<const float*>(source) + begin, static_cast<uint16_t*>(target) + begin, end - begin);
    }
  });
  return true;
}

}  // namespace softnpu::ops::kernels
