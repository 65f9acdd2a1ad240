// Abs, Exp, Ln, Sqrt, Rsqrt, Reciprocal, Relu, Not: one tensor in, one out, by count or by mask and repeats. Called by kernels.
// What it is not: exact to the hardware's last bit; Exp, Ln, Rsqrt and Reciprocal are the C library's, rounded once.
#pragma once

#include "ascendc/arithmetic.h"
#include "ascendc/lanes.h"

namespace AscendC {
namespace detail {

template <class T, T (*f)(T)>
struct One {
  void operator()(size_t n, T* d, const T* a) const {
    for (size_t i = 0; i < n; ++i) d[i] = f(a[i]);
  }
};

template <class T, T (*f)(T)>
void unary(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, int64_t count, Site at) {
  const Op op(name, at);
  op.need_count(count);
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  const T* x = op.reads(src, bytes);
  op.need_apart(dst, src, bytes, "src");
  One<T, f>()(static_cast<size_t>(count), op.writes(dst, bytes), x);
}

template <class T, T (*f)(T), bool set, class Mask>
void unary(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask mask, int64_t repeats,
           const UnaryRepeatParams& p, Site at) {
  const Op op(name, at);
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(T));
  const auto x = source(op, l, src, p.srcBlkStride, p.srcRepStride);
  sweep(l, One<T, f>(), target(op, l, dst, p.dstBlkStride, p.dstRepStride), x);
}

}  // namespace detail

#define ASCENDC_UNARY(Name, f, ...)                                                                          \
  template <class T, bool isSetMask = true>                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t count, ASCENDC_AT) {               \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                             \
    detail::unary<T, detail::f<T>>(#Name, dst, src, detail::counted<isSetMask>(count, at, #Name), at);       \
  }                                                                                                          \
  template <class T, bool isSetMask = true>                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, int32_t repeatTime,         \
            const UnaryRepeatParams& repeatParams, ASCENDC_AT) {                                             \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                             \
    detail::unary<T, detail::f<T>, isSetMask>(#Name, dst, src, mask, repeatTime, repeatParams, at);          \
  }                                                                                                          \
  template <class T, bool isSetMask = true>                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], int32_t repeatTime, \
            const UnaryRepeatParams& repeatParams, ASCENDC_AT) {                                             \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                             \
    detail::unary<T, detail::f<T>, isSetMask>(#Name, dst, src, mask, repeatTime, repeatParams, at);          \
  }

ASCENDC_UNARY(Abs, abs, half, float)
ASCENDC_UNARY(Exp, exp, half, float)
ASCENDC_UNARY(Ln, ln, half, float)
ASCENDC_UNARY(Sqrt, sqrt, half, float)
ASCENDC_UNARY(Rsqrt, rsqrt, half, float)
ASCENDC_UNARY(Reciprocal, reciprocal, half, float)
ASCENDC_UNARY(Relu, relu, half, float, int32_t)
ASCENDC_UNARY(Not, bit_not, int16_t, uint16_t)
#undef ASCENDC_UNARY

}  // namespace AscendC
