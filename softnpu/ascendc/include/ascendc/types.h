// Numbers that C++ lacks: half and bfloat16_t, and which type an instruction computes in. What it is not: conversion with a round
// mode (cast.h). Included by tensors and instructions.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
using half = __fp16;  // there g++ has _Float16 in C++ from 13 on; this one is computed as float and rounded when stored
#else
using half = _Float16;
#endif

// Stored as 16 bits; computed as float, rounded to nearest even when stored.
struct bfloat16_t {
  uint16_t bits;

  bfloat16_t() = default;
  constexpr bfloat16_t(float x) : bits(round(x)) {}
  template <class N>
    requires(std::is_arithmetic_v<N> && !std::is_same_v<N, float>)
  constexpr bfloat16_t(N x) : bits(round(static_cast<float>(x))) {}
  constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

 private:
  static constexpr uint16_t round(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    if ((u & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((u >> 16) | 0x40);  // NaN stays one
    return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
};

// Two numbers of 4 bits, -8 to 7; the first one is the lower half. Only Cast to and from half computes on such (cast.h); a tensor of them
// counts numbers, not bytes (local_tensor.h).
struct int4b_t {
  uint8_t pair;
};

// Of numbers, as kernels call them; constrained, so that std::min and std::max stay apart.
template <class T>
  requires std::is_arithmetic_v<T>
constexpr const T& min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <class T>
  requires std::is_arithmetic_v<T>
constexpr const T& max(const T& a, const T& b) {
  return a < b ? b : a;
}

namespace AscendC {

using ::int4b_t;

template <class T, class U>
using IsSameType = std::is_same<T, U>;

inline float ToFloat(const bfloat16_t& x) { return x; }
inline bfloat16_t ToBfloat16(const float& x) { return x; }

namespace detail {

// False, of any type: what is refused only where it is used.
template <class...>
inline constexpr bool never = false;

template <class T, class... Of>
inline constexpr bool one_of = (std::is_same_v<T, Of> || ...);

template <class T>
inline constexpr bool is_float = one_of<T, half, bfloat16_t, float>;

// What arithmetic is done in: float for 16 bit floats (one rounding, at the store), unsigned for integers, which wrap.
template <class T, class = void>
struct Wide {
  using type = T;
};
template <>
struct Wide<half> {
  using type = float;
};
template <>
struct Wide<bfloat16_t> {
  using type = float;
};
template <class T>
struct Wide<T, std::enable_if_t<std::is_integral_v<T>>> {
  using type = std::make_unsigned_t<std::common_type_t<T, int>>;
};
template <class T>
using wide = typename Wide<T>::type;

template <int kBytes>
struct Unsigned;
template <>
struct Unsigned<1> {
  using type = uint8_t;
};
template <>
struct Unsigned<2> {
  using type = uint16_t;
};
template <>
struct Unsigned<4> {
  using type = uint32_t;
};
template <>
struct Unsigned<8> {
  using type = uint64_t;
};
template <class T>
using bits_of = typename Unsigned<sizeof(T)>::type;

// How many elements a byte holds, where it holds several.
template <class T>
inline constexpr uint32_t per_byte = std::is_same_v<T, ::int4b_t> ? 2 : 1;
template <class T>
constexpr uint64_t bytes_of(uint64_t elements) {
  return elements * sizeof(T) / per_byte<T>;
}

// A scalar operand: converts to the tensor's type, and is no part of template deduction.
template <class T>
using Plain = std::type_identity_t<T>;

}  // namespace detail
}  // namespace AscendC
