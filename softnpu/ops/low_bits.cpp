// See low_bits.h.
#include "softnpu/ops/low_bits.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "softnpu/ops/mx_blocks.h"

namespace softnpu::ops::kernels {

Tensor int4_values(const Tensor& t) { return int4_values(t, mx::pair_dim(t)); }

Tensor int4_values(const Tensor& t, int64_t dim) {
  const Tensor wide = t.to(at::kLong);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 8; i++) {
    const Tensor nibble = wide.__rshift__(4 * i).bitwise_and(15);
    parts.push_back(at::where(nibble.ge(8), nibble - 16, nibble));
  }
  return at::stack(parts, dim + 1).flatten(dim, dim + 1);
}

Tensor float4_words(const Tensor& t) {
  const int64_t last = t.dim() - 1, at = mx::pair_dim(t);
  const Tensor rows = at == last ? t : t.transpose(at, last);
  const Tensor pairs = rows.contiguous().view(at::kByte).view(at::ScalarType::Float4_e2m1fn_x2);
  return at == last ? pairs : pairs.transpose(at, last);
}

Tensor low_values(const Tensor& t, bool words) {
  if (t.scalar_type() == at::kInt) return int4_values(t).to(at::kFloat);
  return mx::unpacked(words && t.scalar_type() == at::kFloat ? float4_words(t) : t);
}

std::vector<int64_t> low_sizes(const Tensor& t, bool words) {
  std::vector<int64_t> sizes = mx::sizes_of(t);
  const bool eight = t.scalar_type() == at::kInt || (words && t.scalar_type() == at::kFloat);
  if (eight && !sizes.empty()) sizes[static_cast<size_t>(mx::pair_dim(t))] *= 8;
  return sizes;
}

Tensor scale_values(const Tensor& t) {
  if (!wide_bits(t)) return wide(t);
  const Tensor bits = t.scalar_type() == at::kLong ? t : t.view(at::kLong);
  return bits.bitwise_and(0xFFFFFFFF).to(at::kInt).view(at::kFloat);
}

}  // namespace softnpu::ops::kernels
