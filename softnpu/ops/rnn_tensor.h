// How recurrent kernels take their tensors: contiguous and in the type they compute in, fp32 for 16 bits.
#pragma once

#include <ATen/ops/empty.h>

#include "softnpu/ops/half.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

inline at::ScalarType computed_in(const Tensor& t) {
  TORCH_CHECK(!t.is_complex(), "a complex operand of a recurrent network, which computes with real numbers");
  return t.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}
inline Tensor plain(const Tensor& t) {
  if (t.scalar_type() != at::kHalf || !t.is_contiguous()) return t.to(computed_in(t)).contiguous();
  Tensor wide = at::empty(t.sizes(), at::kFloat);
  return convert_half(t, wide) ? wide : wide.copy_(t);
}
inline Tensor plain(const OptionalTensor& t) { return passed(t) ? plain(*t) : Tensor(); }

inline Tensor steps_first(const Tensor& x, bool batch_first) { return plain(batch_first ? x.transpose(0, 1) : x); }

// Where a kernel may write at once, else a place whose contents are put there afterwards.
inline Tensor room_for(const Tensor& out) {
  return out.scalar_type() == computed_in(out) && out.is_contiguous() ? out : at::empty(out.sizes(), computed_in(out));
}
inline void arrive(Tensor& out, const Tensor& result) {
  if (!out.is_same(result)) put(out, result);
}

template <class T>
const T* at_row(const Tensor& t, int64_t b, int64_t width) {
  return t.const_data_ptr<T>() + b * width;
}
template <class T>
T* to_row(const Tensor& t, int64_t b, int64_t width) {
  return t.mutable_data_ptr<T>() + b * width;
}

}  // namespace softnpu::ops::kernels
