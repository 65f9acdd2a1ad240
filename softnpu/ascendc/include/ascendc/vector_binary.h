// Add, Sub, Mul, Div, Max, Min, And, Or: two tensors in, one out, by count or by mask and repeats. What it is not: a scalar operand
// (vector_scalar.h). Called by kernels.
#pragma once

#include "ascendc/arithmetic.h"
#include "ascendc/lanes.h"

namespace AscendC {
namespace detail {

template <class T, T (*f)(T, T)>
struct Both {
  void operator()(size_t n, T* d, const T* a, const T* b) const {
    for (size_t i = 0; i < n; ++i) d[i] = f(a[i], b[i]);
  }
};

template <class T, T (*f)(T, T)>
void binary(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b,
            int64_t count, Site at) {
  const Op op(name, at);
  op.need_count(count);
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(T);
  const T *x = op.reads(a, bytes, "src0"), *y = op.reads(b, bytes, "src1");
  op.need_apart(dst, a, bytes, "src0");
  op.need_apart(dst, b, bytes, "src1");
  Both<T, f>()(static_cast<size_t>(count), op.writes(dst, bytes), x, y);
}

template <class T, T (*f)(T, T), bool set, class Mask>
void binary(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b, Mask mask,
            int64_t repeats, const BinaryRepeatParams& p, Site at) {
  const Op op(name, at);
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(T));
  const auto x = source(op, l, a, p.src0BlkStride, p.src0RepStride, "src0");
  const auto y = source(op, l, b, p.src1BlkStride, p.src1RepStride, "src1");
  sweep(l, Both<T, f>(), target(op, l, dst, p.dstBlkStride, p.dstRepStride), x, y);
}

}  // namespace detail

#define ASCENDC_BINARY(Name, f, ...)                                                                                  \
  template <class T, bool isSetMask = true>                                                                           \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int32_t count,         \
            ASCENDC_AT) {                                                                                             \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                                      \
    detail::binary<T, detail::f<T>>(#Name, dst, src0, src1, detail::counted<isSetMask>(count, at, #Name), at);        \
  }                                                                                                                   \
  template <class T, bool isSetMask = true>                                                                           \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint64_t mask,         \
            int32_t repeatTime, const BinaryRepeatParams& repeatParams, ASCENDC_AT) {                                 \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                                      \
    detail::binary<T, detail::f<T>, isSetMask>(#Name, dst, src0, src1, mask, repeatTime, repeatParams, at);           \
  }                                                                                                                   \
  template <class T, bool isSetMask = true>                                                                           \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const uint64_t mask[], \
            int32_t repeatTime, const BinaryRepeatParams& repeatParams, ASCENDC_AT) {                                 \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " takes " #__VA_ARGS__);                                      \
    detail::binary<T, detail::f<T>, isSetMask>(#Name, dst, src0, src1, mask, repeatTime, repeatParams, at);           \
  }

ASCENDC_BINARY(Add, add, half, float, int16_t, int32_t)
ASCENDC_BINARY(Sub, sub, half, float, int16_t, int32_t)
ASCENDC_BINARY(Mul, mul, half, float, int16_t, int32_t)
ASCENDC_BINARY(Max, max, half, float, int16_t, int32_t)
ASCENDC_BINARY(Min, min, half, float, int16_t, int32_t)
ASCENDC_BINARY(Div, div, half, float)
ASCENDC_BINARY(And, bit_and, int16_t, uint16_t)
ASCENDC_BINARY(Or, bit_or, int16_t, uint16_t)
#undef ASCENDC_BINARY

// Bits in bytes, as Compare writes them: by count alone. Not documented; public kernels have them.
#define ASCENDC_BYTES(Name, f, T)                                                                                    \
  inline void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, int32_t count, \
                   ASCENDC_AT) {                                                                                     \
    detail::binary<T, detail::f<T>>(#Name, dst, src0, src1, count, at);                                              \
  }
ASCENDC_BYTES(And, bit_and, uint8_t)
ASCENDC_BYTES(And, bit_and, int8_t)
ASCENDC_BYTES(Or, bit_or, uint8_t)
ASCENDC_BYTES(Or, bit_or, int8_t)
#undef ASCENDC_BYTES

namespace detail {
// What is right of = in dst = src0 + src1.
template <class T>
struct Whole {
  void (*f)(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint32_t count);
  LocalTensor<T> src0, src1;
};
}  // namespace detail
#define ASCENDC_OPERATOR(op, Name)                                                                            \
  template <class T>                                                                                          \
  detail::Whole<T> operator op(const LocalTensor<T>& src0, const LocalTensor<T>& src1) {                      \
    return {[](const LocalTensor<T>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b, uint32_t count) { \
              Name(dst, a, b, static_cast<int32_t>(count));                                                   \
            },                                                                                                \
            src0, src1};                                                                                      \
  }
ASCENDC_OPERATOR(+, Add)
ASCENDC_OPERATOR(-, Sub)
ASCENDC_OPERATOR(*, Mul)
ASCENDC_OPERATOR(/, Div)
ASCENDC_OPERATOR(&, And)
ASCENDC_OPERATOR(|, Or)
#undef ASCENDC_OPERATOR

}  // namespace AscendC
