// Conversion of one number with a round mode: to integers saturating, NaN to 0; to 16 bit floats by the two neighbours.
// What it is not: the instruction (cast.h).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ascendc/enums.h"
#include "ascendc/types.h"

namespace AscendC::detail {

template <RoundMode mode, class F>
F to_integral(F x) {
  if constexpr (mode == RoundMode::CAST_FLOOR) return std::floor(x);
  if constexpr (mode == RoundMode::CAST_CEIL) return std::ceil(x);
  if constexpr (mode == RoundMode::CAST_ROUND) return std::trunc(x + std::copysign(std::nextafter(F(0.5), F(0)), x));
  if constexpr (mode == RoundMode::CAST_TRUNC) return std::trunc(x);
  return std::nearbyint(x);  // CAST_NONE, CAST_RINT: the environment's mode, which is to nearest even
}

template <class I, RoundMode mode, class F>
I to_integer(F x) {
  const F r = to_integral<mode>(x);
  constexpr F kLow = static_cast<F>(std::numeric_limits<I>::min());
  constexpr F kEnd =
      -2 * static_cast<F>(std::numeric_limits<std::make_signed_t<I>>::min() / (std::is_signed_v<I> ? 2 : 1));
  if (!(r >= kLow)) return r < kLow ? std::numeric_limits<I>::min() : I(0);
  return r < kEnd ? static_cast<I>(r) : std::numeric_limits<I>::max();
}

template <class I, class J>
I saturated(J x) {
  if constexpr (sizeof(I) >= sizeof(J)) return static_cast<I>(x);
  if (x < static_cast<J>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (x > static_cast<J>(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
  return static_cast<I>(x);
}

// half or bfloat16_t by mode: the nearest one, then its neighbour where the mode wants that one.
template <class H, RoundMode mode>
H to_short_float(float x) {
  const H nearest = static_cast<H>(x);
  if constexpr (mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT) return nearest;
  const float back = static_cast<float>(nearest);
  if (back == x || std::isnan(x) || std::isinf(x)) return nearest;
  const uint16_t bits = std::bit_cast<uint16_t>(nearest), sign = bits & 0x8000;
  const bool grew = std::fabs(back) > std::fabs(x);  // the nearest lies further from 0
  const uint16_t outer = grew ? bits : static_cast<uint16_t>(bits + 1),
                 inner = grew ? static_cast<uint16_t>(bits - 1) : bits;
  bool out = grew;
  if constexpr (mode == RoundMode::CAST_TRUNC) out = false;
  if constexpr (mode == RoundMode::CAST_FLOOR) out = sign != 0 || std::signbit(x);
  if constexpr (mode == RoundMode::CAST_CEIL) out = !std::signbit(x);
  if constexpr (mode == RoundMode::CAST_ODD) out = (outer & 1) != 0;
  if constexpr (mode == RoundMode::CAST_ROUND) {
    const double a = std::fabs(static_cast<double>(static_cast<float>(std::bit_cast<H>(outer))) - x);
    const double b = std::fabs(static_cast<double>(static_cast<float>(std::bit_cast<H>(inner))) - x);
    out = std::isinf(static_cast<float>(std::bit_cast<H>(outer))) ? grew : a <= b;
  }
  return std::bit_cast<H>(out ? outer : inner);
}

// int to float, where the number has more than 24 bits.
template <RoundMode mode, class I>
float to_float(I x) {
  const float nearest = static_cast<float>(x);
  if constexpr (mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT) return nearest;
  const __int128 back = static_cast<__int128>(nearest), wanted = x;
  if (back == wanted) return nearest;
  const float other = std::nextafter(nearest, back > wanted ? -INFINITY : INFINITY);
  const float low = back < wanted ? nearest : other, high = back < wanted ? other : nearest;
  if constexpr (mode == RoundMode::CAST_FLOOR) return low;
  if constexpr (mode == RoundMode::CAST_CEIL) return high;
  if constexpr (mode == RoundMode::CAST_TRUNC) return x < 0 ? high : low;
  const __int128 below = wanted - static_cast<__int128>(low), above = static_cast<__int128>(high) - wanted;
  return below == above ? (x < 0 ? low : high) : below < above ? low : high;  // CAST_ROUND: ties away from 0
}

template <class D, class S, RoundMode mode>
D convert(S x) {
  if constexpr (std::is_same_v<D, S>)
    return static_cast<D>(to_integral<mode>(x));  // float to float: to a whole number
  else if constexpr (is_float<S> && std::is_integral_v<D>)
    return to_integer<D, mode>(static_cast<float>(x));
  else if constexpr (std::is_integral_v<S> && std::is_integral_v<D>)
    return saturated<D>(x);
  else if constexpr (std::is_integral_v<S> && std::is_same_v<D, float>)
    return to_float<mode>(x);
  else if constexpr (std::is_integral_v<S>)
    return to_short_float<D, mode>(static_cast<float>(x));
  else if constexpr (std::is_same_v<D, float>)
    return static_cast<float>(x);
  else
    return to_short_float<D, mode>(static_cast<float>(x));
}

}  // namespace AscendC::detail
