// What the vector instructions compute, an element at a time. 16 bit floats are computed as float and rounded once; integers wrap.
// What it is not: an instruction (vector_unary.h, vector_binary.h, vector_scalar.h, vector_fused.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ascendc/types.h"

namespace AscendC::detail {

template <class T>
T narrow(wide<T> x) {
  return static_cast<T>(x);
}
template <class T>
wide<T> widen(T x) {
  return static_cast<wide<T>>(x);
}

template <class T>
T add(T a, T b) {
  return narrow<T>(widen(a) + widen(b));
}
template <class T>
T sub(T a, T b) {
  return narrow<T>(widen(a) - widen(b));
}
template <class T>
T mul(T a, T b) {
  return narrow<T>(widen(a) * widen(b));
}
template <class T>
T div(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(a / b);  // wide<T> has no sign
  else
    return narrow<T>(widen(a) / widen(b));
}
// A strict order in which NaN comes first: of the largest (or smallest) numbers, and of sorting.
template <bool largest, class T>
bool beats(T a, T b) {
  if constexpr (!std::is_integral_v<T>) {
    const bool first = std::isnan(static_cast<float>(a)), other = std::isnan(static_cast<float>(b));
    if (first || other) return first && !other;
  }
  return largest ? a > b : a < b;
}

template <class T>
T max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}

template <class T>
T abs(T a) {
  return narrow<T>(std::fabs(widen(a)));
}
// Of whole numbers, too, the lowest of which stays.
template <class T>
T magnitude(T a) {
  if constexpr (is_float<T>)
    return abs(a);
  else
    return a < T(0) ? sub(T(0), a) : a;
}
template <class T>
T exp(T a) {
  return narrow<T>(std::exp(widen(a)));
}
template <class T>
T ln(T a) {
  return narrow<T>(std::log(widen(a)));
}
template <class T>
T sqrt(T a) {
  return narrow<T>(std::sqrt(widen(a)));
}
template <class T>
T rsqrt(T a) {
  return narrow<T>(1 / std::sqrt(widen(a)));
}
template <class T>
T reciprocal(T a) {
  return narrow<T>(1 / widen(a));
}
template <class T>
T relu(T a) {
  return a > T(0) ? a : T(0);
}
template <class T>
T bit_not(T a) {
  return static_cast<T>(~a);
}
template <class T>
T leaky_relu(T a, T slope) {
  return a >= T(0) ? a : mul(a, slope);
}

// Shifts by the type's width or more leave nothing (or the sign).
template <class T>
T shift_left(T a, T n) {
  constexpr T kBits = sizeof(T) * 8;
  return static_cast<T>(n >= kBits ? bits_of<T>(0) : static_cast<bits_of<T>>(widen(a) << n));
}
template <class T>
T shift_right(T a, T n) {
  constexpr T kBits = sizeof(T) * 8;
  if (n < kBits) return static_cast<T>(a >> n);
  return a < T(0) ? static_cast<T>(-1) : T(0);
}
// Rounded: half of the last place is added first.
template <class T>
T shift_right_round(T a, T n) {
  if (n == 0) return a;
  const T floor = shift_right(a, n);
  return n > T(sizeof(T) * 8) ? floor : static_cast<T>(floor + (shift_right(a, static_cast<T>(n - 1)) & 1));
}

}  // namespace AscendC::detail
