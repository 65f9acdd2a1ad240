// Room for a kernel's fp32 copies of 16-bit operands, kept by the thread: fresh pages from the system cost a large product more
// than the conversion. What it is not: results, which live in the caller's memory. Used by one kernel at a time, by slot.
#pragma once

#include <ATen/core/Tensor.h>

#include "softnpu/ops/widen.h"

namespace softnpu::ops::kernels {

enum class Slot : uint8_t { kFirst, kSecond, kThird, kResult };

// Uninitialized fp32, valid until the thread asks for the slot again. `like` gives sizes and, if it is dense, strides.
at::Tensor scratch(const at::Tensor& like, Slot slot);
at::Tensor scratch(at::IntArrayRef sizes, Slot slot);  // contiguous
// The operand in fp32: itself if it is, else a copy in the slot.
at::Tensor wide_copy(const at::Tensor& operand, Slot slot);
// The same for what is_narrow; other types stay.
inline at::Tensor widen(const at::Tensor& operand, Slot slot) {
  return is_narrow(operand) ? wide_copy(operand, slot) : operand;
}

}  // namespace softnpu::ops::kernels
