// See bits.h.
#include "softnpu/ops/bits.h"

#include <ATen/ops/im2col_cpu_dispatch.h>

#include <limits>

#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

constexpr int64_t kSign = std::numeric_limits<int64_t>::min();

// A floating-point type of the size of an integer that is moved in its place.
at::ScalarType floating(at::ScalarType type) {
  switch (type) {
    case at::kShort:
      return at::kHalf;
    case at::kInt:
      return at::kFloat;
    case at::kLong:
      return at::kDouble;
    default:
      return type;
  }
}

}  // namespace

void put_bits(Tensor& out, const Tensor& result) {
  Tensor place = moved_bits(out);
  put(place, result);
}

Tensor ordered(const Tensor& t) {
  switch (t.scalar_type()) {
    case at::kUInt16:
      return t.to(at::kInt);
    case at::kUInt32:
      return t.to(at::kLong);
    case at::kUInt64:
      return t.view(at::kLong).bitwise_xor(kSign);
    default:
      return t;
  }
}

void put_ordered(Tensor& out, const Tensor& result, const Tensor& of) {
  put(out, of.scalar_type() == at::kUInt64 ? result.bitwise_xor(kSign).view(at::kUInt64) : result);
}

void im2col(const Tensor& x, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride,
            Tensor& out) {
  Tensor moved = bits(x), place = bits(out);
  const bool bytes = x.scalar_type() != at::kBool && moved.element_size() == 1;
  if (x.scalar_type() == at::kBool) moved = x, place = out;
  if (bytes) moved = moved.to(at::kShort);
  moved = moved.view(floating(moved.scalar_type()));
  const Tensor columns = at::cpu::im2col(moved, kernel, dilation, padding, stride);
  if (moved.scalar_type() == x.scalar_type()) return put(out, columns);
  put(place, columns.view(bytes ? at::kShort : place.scalar_type()));
}

}  // namespace softnpu::ops::kernels
