// Adds, Muls, Maxs, Mins, LeakyRelu, ShiftLeft, ShiftRight: a tensor and a number in, one out, by count or by mask and repeats.
// What it is not: Axpy, which reads its result, too (vector_fused.h). Called by kernels.
#pragma once

#include "ascendc/arithmetic.h"
#include "ascendc/lanes.h"

namespace AscendC {
namespace detail {

template <class T, T (*f)(T, T)>
struct WithScalar {
  T s;
  void operator()(size_t n, T* d, const T* a) const {
    for (size_t i = 0; i < n; ++i) d[i] = f(a[i], s);
  }
};

template <class T, T (*f)(T, T)>
void with_scalar(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, T scalar, int64_t count,
                 Site at) {
  const Op op(name, at);
  op.need_count(count);
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  const T* x = op.reads(src, bytes);
  op.need_apart(dst, src, bytes, "src");
  WithScalar<T, f>{scalar}(static_cast<size_t>(count), op.writes(dst, bytes), x);
}

template <class T, T (*f)(T, T), bool set, class Mask>
void with_scalar(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, T scalar, Mask mask,
                 int64_t repeats, const UnaryRepeatParams& p, Site at) {
  const Op op(name, at);
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(T));
  const auto x = source(op, l, src, p.srcBlkStride, p.srcRepStride);
  sweep(l, WithScalar<T, f>{scalar}, target(op, l, dst, p.dstBlkStride, p.dstRepStride), x);
}

}  // namespace detail

#define ASCENDC_SCALAR(Name, f, ...)                                                                                 \
  template <class T, bool isSetMask = true>                                                                          \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const detail::Plain<T>& scalar, int32_t count,     \
            ASCENDC_AT) {                                                                                            \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                                     \
    detail::with_scalar<T, detail::f<T>>(#Name, dst, src, scalar, detail::counted<isSetMask>(count, at, #Name), at); \
  }                                                                                                                  \
  template <class T, bool isSetMask = true>                                                                          \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const detail::Plain<T>& scalar, uint64_t mask,     \
            int32_t repeatTime, const UnaryRepeatParams& repeatParams, ASCENDC_AT) {                                 \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                                     \
    detail::with_scalar<T, detail::f<T>, isSetMask>(#Name, dst, src, scalar, mask, repeatTime, repeatParams, at);    \
  }                                                                                                                  \
  template <class T, bool isSetMask = true>                                                                          \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const detail::Plain<T>& scalar,                    \
            const uint64_t mask[], int32_t repeatTime, const UnaryRepeatParams& repeatParams, ASCENDC_AT) {          \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                                     \
    detail::with_scalar<T, detail::f<T>, isSetMask>(#Name, dst, src, scalar, mask, repeatTime, repeatParams, at);    \
  }

ASCENDC_SCALAR(Adds, add, half, float, int16_t, int32_t)
ASCENDC_SCALAR(Muls, mul, half, float, int16_t, int32_t)
ASCENDC_SCALAR(Maxs, max, half, float, int16_t, int32_t)
ASCENDC_SCALAR(Mins, min, half, float, int16_t, int32_t)
ASCENDC_SCALAR(LeakyRelu, leaky_relu, half, float)
ASCENDC_SCALAR(ShiftLeft, shift_left, int16_t, uint16_t, int32_t, uint32_t)
ASCENDC_SCALAR(ShiftRight, shift_right, int16_t, uint16_t, int32_t, uint32_t)
#undef ASCENDC_SCALAR

// With rounding, which the hardware has for signed numbers.
template <class T, bool isSetMask = true, class Mask>
void ShiftRight(const LocalTensor<T>& dst, const LocalTensor<T>& src, const detail::Plain<T>& scalar, Mask mask,
                int32_t repeatTime, const UnaryRepeatParams& repeatParams, bool roundEn, ASCENDC_AT) {
  static_assert(detail::one_of<T, int16_t, uint16_t, int32_t, uint32_t>,
                "ShiftRight takes int16_t, uint16_t, int32_t, uint32_t");
  if (!roundEn) return ShiftRight<T, isSetMask>(dst, src, scalar, mask, repeatTime, repeatParams, at);
  if constexpr (std::is_signed_v<T>) {
    if constexpr (std::is_pointer_v<Mask>)
      detail::with_scalar<T, detail::shift_right_round<T>, isSetMask>("ShiftRight", dst, src, scalar, mask, repeatTime,
                                                                      repeatParams, at);
    else
      detail::with_scalar<T, detail::shift_right_round<T>, isSetMask>(
          "ShiftRight", dst, src, scalar, static_cast<uint64_t>(mask), repeatTime, repeatParams, at);
  } else {
    detail::fail(at, "ShiftRight", "rounding (roundEn) is for int16_t and int32_t");
  }
}

}  // namespace AscendC
