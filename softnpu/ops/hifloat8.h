// hifloat8, the Ascend950's own type of 8 bits (arXiv 2409.16626): a sign; a prefix code of two to four bits that says how many bits the exponent
// has; an exponent with a sign and a magnitude, whose leading one is not stored; and what is left, one to three bits, of mantissa. Codes below
// 8 are powers of two alone, 2^-22 to 2^-16. ATen has no such type: kernels see codes as kHifloat8, with which ATen computes nothing, read them
// with hifloat8_values() (low_values() and mx::floats() do) and write them with put(). Who calls it: these, and kernels that ask for the type.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "softnpu/ops/bits.h"

namespace softnpu::ops::kernels {

constexpr at::ScalarType kHifloat8 = at::ScalarType::Bits8;
constexpr double kHifloat8Largest = 32768;  // above it, infinity
constexpr int64_t kAclHifloat8 = 34;        // its number as an aclDataType, in dstType and the like

// What functions say of a result of it: a rounding, a number of aclDataType, and where theirs is not the type's largest number.
inline void need_hifloat8(std::string_view round, int64_t type, double largest = 0) {
  TORCH_CHECK_NOT_IMPLEMENTED(round.empty() || round == "round", "roundMode ", std::string(round),
                              " is not implemented for hifloat8; round is");
  TORCH_CHECK(type == kAclHifloat8, "the type ", type, " is not that of the result, ", kAclHifloat8, " (hifloat8)");
  TORCH_CHECK(largest >= 0 && largest <= kHifloat8Largest, "dstTypeMax ", largest, " is not 0 to ", kHifloat8Largest);
}

inline bool is_hifloat8(const at::Tensor& t) { return t.scalar_type() == kHifloat8; }

// fp32, which holds every one of them.
at::Tensor hifloat8_values(const at::Tensor& codes);
// Of floating or whole numbers the codes of the nearest, halves away from zero: infinity from 40960 on, 0 below 2^-23.
at::Tensor hifloat8_codes(const at::Tensor& values);

// What kernels that only move elements do with codes; of other types bits() decides.
inline at::Tensor moved_bits(const at::Tensor& t) {
  return t.defined() && is_hifloat8(t) ? t.view(at::kByte) : bits(t);
}

}  // namespace softnpu::ops::kernels
