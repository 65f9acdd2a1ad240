// e^x in fp32 without a call, so that the compiler vectorizes the loops around it. What it is
// not: exact to the last place, as std::exp is.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace softnpu::ops::kernels {

// The largest number whose exponential is finite.
constexpr float kMostExponent = 88.7228317f;

// 2^n times a polynomial of degree 7 on [-ln2/2, ln2/2], within 2 units in the last place. Beyond -87 and `most`, up to kMostExponent, it stays
// at the ends, where a sigmoid is nearly 0 or 1; NaN stays.
inline float exponential(float x, float most = 87.0f) {
  const float clamped = std::min(most, std::max(-87.0f, x));
  float n = clamped * 1.44269504f + 12582912.0f;  // rounds to nearest: the integer is in the low bits
  const auto bits = std::bit_cast<int32_t>(n) << 23;
  n -= 12582912.0f;
  const float r = clamped - n * 0.693145752f - n * 1.42860677e-6f;
  float p = 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return x != x ? x : std::bit_cast<float>(std::bit_cast<int32_t>(p) + bits);
}
inline double exponential(double x) { return std::exp(x); }

}  // namespace softnpu::ops::kernels
