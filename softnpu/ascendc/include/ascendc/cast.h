// Cast: a tensor into another type, with a round mode. A repeat is 256 bytes of the wider type. Called by kernels.
// What it is not: quantization; of that it has int32_t to half with SetDeqScale. int4b_t, to and from half: two numbers a byte.
#pragma once

#include "ascendc/lanes.h"
#include "ascendc/round.h"

namespace AscendC {
namespace detail {

template <class D, class S>
constexpr bool castable() {
  if constexpr (std::is_same_v<S, float>) return one_of<D, float, half, bfloat16_t, int16_t, int32_t, int64_t>;
  if constexpr (std::is_same_v<S, half>) return one_of<D, float, int32_t, int16_t, int8_t, uint8_t, int4b_t>;
  if constexpr (std::is_same_v<S, bfloat16_t>) return one_of<D, float, int32_t>;
  if constexpr (one_of<S, int8_t, uint8_t, int4b_t>) return one_of<D, half>;
  if constexpr (std::is_same_v<S, int16_t>) return one_of<D, half, float>;
  if constexpr (std::is_same_v<S, int32_t>) return one_of<D, float, int16_t, int64_t, half>;
  if constexpr (std::is_same_v<S, int64_t>) return one_of<D, float, int32_t>;
  return false;
}

template <class D, class S, RoundMode mode>
struct Convert {
  float scale;
  void operator()(size_t n, D* d, const S* a) const {
    for (size_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<S, int32_t> && std::is_same_v<D, half>)
        d[i] = to_short_float<D, mode>(static_cast<float>(a[i]) * scale);
      else
        d[i] = convert<D, S, mode>(a[i]);
    }
  }
};

// Calls f with the loop for the mode.
template <class D, class S, class F>
void with_mode(const Op& op, RoundMode mode, F f) {
  const float scale = op.core().deq_scale;
  constexpr bool kExact = (is_float<D> && sizeof(D) > sizeof(S) && (is_float<S> || sizeof(S) < 4)) ||
                          (std::is_integral_v<D> && std::is_integral_v<S>) || (sizeof(S) == 1);
  if constexpr (kExact) {
    return f(Convert<D, S, RoundMode::CAST_NONE>{scale});
  } else {
    switch (mode) {
      case RoundMode::CAST_NONE:
      case RoundMode::CAST_RINT:
        return f(Convert<D, S, RoundMode::CAST_RINT>{scale});
      case RoundMode::CAST_FLOOR:
        return f(Convert<D, S, RoundMode::CAST_FLOOR>{scale});
      case RoundMode::CAST_CEIL:
        return f(Convert<D, S, RoundMode::CAST_CEIL>{scale});
      case RoundMode::CAST_ROUND:
        return f(Convert<D, S, RoundMode::CAST_ROUND>{scale});
      case RoundMode::CAST_TRUNC:
        return f(Convert<D, S, RoundMode::CAST_TRUNC>{scale});
      case RoundMode::CAST_ODD:
        if constexpr (std::is_same_v<S, float> && std::is_same_v<D, half>)
          return f(Convert<D, S, RoundMode::CAST_ODD>{scale});
        op.fail("CAST_ODD is for float to half");
      case RoundMode::UNKNOWN:
        op.fail("RoundMode::UNKNOWN is for registers");
    }
    op.fail(format("%d is no RoundMode", static_cast<int>(mode)));
  }
}

#define ASCENDC_CASTABLE                                                                                      \
  static_assert(                                                                                              \
      detail::castable<T, U>(),                                                                               \
      "Cast: from float to float, half, bfloat16_t, int16_t, int32_t, int64_t; from half to float, int32_t, " \
      "int16_t, int8_t, uint8_t, int4b_t; from bfloat16_t to float, int32_t; from int8_t, uint8_t, int4b_t "  \
      "to half; from "                                                                                        \
      "int16_t to half, float; from int32_t to float, int16_t, int64_t, half; from int64_t to float, int32_t")

// Blocks that a repeat of 128 numbers fills.
template <class T>
inline constexpr uint8_t nibble_blocks = per_byte<T> > 1 ? 2 : 8;

// half to int4b_t, saturating, or back: a repeat has 128 numbers, and a block of numbers of 4 bits 64.
template <class T, class U>
void cast_nibbles(const Op& op, const LocalTensor<T>& dst, const LocalTensor<U>& src, RoundMode mode, const Lanes& l,
                  const UnaryRepeatParams& p) {
  const auto* from = reinterpret_cast<const uint8_t*>(
      op.reads(src, l.span_of_bits(8 * sizeof(U) / per_byte<U>, p.srcBlkStride, p.srcRepStride), "src", 32,
               Blocks{l, 32 * per_byte<U> / sizeof(U), p.srcBlkStride, p.srcRepStride}));
  auto* to = reinterpret_cast<uint8_t*>(
      op.writes(dst, l.span_of_bits(8 * sizeof(T) / per_byte<T>, p.dstBlkStride, p.dstRepStride), "dst", 32,
                Blocks{l, 32 * per_byte<T> / sizeof(T), p.dstBlkStride, p.dstRepStride}));
  const auto place = [](int r, int e, int per, uint32_t blk, uint32_t rep) {  // of the element, counted from the start
    return (static_cast<size_t>(r) * rep + static_cast<size_t>(e / per) * blk) * per + e % per;
  };
  const auto each = [&](auto one) {
    for (int r = 0; r < l.repeats; ++r)
      for (int e = 0; e < (r + 1 < l.repeats ? l.each : l.last); ++e)
        if (l.prefix >= 0 ? e < l.prefix : (l.bits[e / 64] >> (e % 64) & 1) != 0)
          one(place(r, e, 32 * per_byte<T> / sizeof(T), p.dstBlkStride, p.dstRepStride),
              place(r, e, 32 * per_byte<U> / sizeof(U), p.srcBlkStride, p.srcRepStride));
  };
  if constexpr (std::is_same_v<T, half>) {
    each([&](size_t d, size_t s) {
      const int pair = from[s / 2] >> (s % 2 * 4) & 15;
      const half value = static_cast<half>(pair < 8 ? pair : pair - 16);
      memcpy(to + d * sizeof value, &value, sizeof value);
    });
  } else {
    with_mode<int8_t, half>(op, mode, [&](auto convert) {
      each([&](size_t d, size_t s) {
        half value;
        memcpy(&value, from + s * sizeof value, sizeof value);
        int8_t whole;
        convert(1, &whole, &value);
        const unsigned shift = d % 2 * 4, pair = static_cast<unsigned>(std::clamp<int>(whole, -8, 7)) & 15;
        to[d / 2] = static_cast<uint8_t>((to[d / 2] & ~(15u << shift)) | pair << shift);
      });
    });
  }
}

template <class T, class U, bool set, class Mask>
void cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, RoundMode mode, Mask mask, int32_t repeats,
          const UnaryRepeatParams& p, Site at) {
  ASCENDC_CASTABLE;
  const Op op("Cast", at);
  const Lanes l = lanes_of<set>(op, mask, repeats, static_cast<int>(256 / std::max(sizeof(T), sizeof(U))));
  if constexpr (per_byte<T> > 1 || per_byte<U> > 1)
    return cast_nibbles(op, dst, src, mode, l, p);
  else {
    const auto x = source(op, l, src, p.srcBlkStride, p.srcRepStride);
    const auto d = target(op, l, dst, p.dstBlkStride, p.dstRepStride);
    with_mode<T, U>(op, mode, [&](auto loop) { sweep(l, loop, d, x); });
  }
}

}  // namespace detail

template <class T, class U>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, uint32_t count,
          ASCENDC_AT) {
  ASCENDC_CASTABLE;
  const detail::Op op("Cast", at);
  if constexpr (detail::per_byte<T> > 1 || detail::per_byte<U> > 1) {
    if (count % 2) op.fail(detail::format("%u numbers of 4 bits fill no whole bytes: the count is even", count));
    const auto l = detail::lanes_of_count(count, 128);
    detail::cast_nibbles(op, dst, src, roundMode, l,
                         UnaryRepeatParams(1, 1, detail::nibble_blocks<T>, detail::nibble_blocks<U>));
  } else {
    const U* x = op.reads(src, static_cast<uint64_t>(count) * sizeof(U));
    T* d = op.writes(dst, static_cast<uint64_t>(count) * sizeof(T));
    detail::with_mode<T, U>(op, roundMode, [&](auto loop) { loop(count, d, x); });
  }
}
template <class T, class U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, uint64_t mask,
          int32_t repeatTime, const UnaryRepeatParams& repeatParams, ASCENDC_AT) {
  detail::cast<T, U, isSetMask>(dst, src, roundMode, mask, repeatTime, repeatParams, at);
}
template <class T, class U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode, const uint64_t mask[],
          int32_t repeatTime, const UnaryRepeatParams& repeatParams, ASCENDC_AT) {
  detail::cast<T, U, isSetMask>(dst, src, roundMode, mask, repeatTime, repeatParams, at);
}
#undef ASCENDC_CASTABLE

// What Cast from int32_t to half multiplies with.
inline void SetDeqScale(half scale, ASCENDC_AT) {
  detail::core(at, "SetDeqScale").deq_scale = static_cast<float>(scale);
}

}  // namespace AscendC
