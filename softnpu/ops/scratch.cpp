// See scratch.h.
#include "softnpu/ops/scratch.h"

#include <ATen/ops/empty.h>

#include <array>

#include "softnpu/ops/half.h"

namespace softnpu::ops::kernels {

namespace {

constexpr int64_t kKeep = 16 << 20;  // elements; what is larger is given back at once
constexpr size_t kSlots = 4;

at::Tensor room(int64_t elements, Slot slot) {
  if (elements > kKeep) return at::empty({elements}, at::kFloat);
  thread_local std::array<at::Tensor, kSlots> kept;
  at::Tensor& buffer = kept[static_cast<size_t>(slot)];
  if (!buffer.defined() || buffer.numel() < elements) buffer = at::empty({elements}, at::kFloat);
  return buffer;
}

}  // namespace

at::Tensor scratch(const at::Tensor& like, Slot slot) {
  if (like.is_non_overlapping_and_dense()) {
    return room(like.numel(), slot).as_strided(like.sizes(), like.strides(), 0);
  }
  return scratch(like.sizes(), slot);
}

at::Tensor scratch(at::IntArrayRef sizes, Slot slot) {
  const int64_t elements = c10::multiply_integers(sizes);
  return room(elements, slot).narrow(0, 0, elements).view(sizes);
}

at::Tensor wide_copy(const at::Tensor& operand, Slot slot) {
  if (operand.scalar_type() == at::kFloat) return operand;
  at::Tensor wide = scratch(operand, slot);
  if (!convert_half(operand, wide)) wide.copy_(operand);
  return wide;
}

}  // namespace softnpu::ops::kernels
