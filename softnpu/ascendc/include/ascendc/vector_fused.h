// Instructions that do two things: Axpy, MulAddDst, FusedMulAdd, FusedMulAddRelu, AddRelu, SubRelu. Called by kernels.
// What it is not: fused rounding. Each step is rounded as the two instructions would be; what the hardware does is not documented.
#pragma once

#include "ascendc/arithmetic.h"
#include "ascendc/lanes.h"

namespace AscendC {
namespace detail {

// dst = f(dst, src0, src1)
template <class D, class S, D (*f)(D, S, S)>
struct Three {
  void operator()(size_t n, D* d, const S* a, const S* b) const {
    for (size_t i = 0; i < n; ++i) d[i] = f(d[i], a[i], b[i]);
  }
};

// The product of two narrower numbers is taken in the result's type.
template <class D, class S>
D mul_add_dst(D d, S a, S b) {
  return add(d, mul(static_cast<D>(a), static_cast<D>(b)));
}
template <class D, class S>
D fused_mul_add(D d, S a, S b) {
  return add(mul(static_cast<D>(a), d), static_cast<D>(b));
}
template <class D, class S>
D fused_mul_add_relu(D d, S a, S b) {
  return relu(fused_mul_add<D, S>(d, a, b));
}
template <class D, class S>
D add_relu(D, S a, S b) {
  return relu(add(a, b));
}
template <class D, class S>
D sub_relu(D, S a, S b) {
  return relu(sub(a, b));
}

template <class D, class S, D (*f)(D, S, S)>
void three(const char* name, const LocalTensor<D>& dst, const LocalTensor<S>& a, const LocalTensor<S>& b, int64_t count,
           Site at) {
  const Op op(name, at);
  op.need_count(count);
  const uint64_t n = static_cast<uint64_t>(count);
  const S *x = op.reads(a, n * sizeof(S), "src0"), *y = op.reads(b, n * sizeof(S), "src1");
  op.reads(dst, n * sizeof(D), "dst");
  Three<D, S, f>()(n, op.writes(dst, n * sizeof(D)), x, y);
}

template <class D, class S, D (*f)(D, S, S), bool set, class Mask>
void three(const char* name, const LocalTensor<D>& dst, const LocalTensor<S>& a, const LocalTensor<S>& b, Mask mask,
           int64_t repeats, const BinaryRepeatParams& p, Site at) {
  const Op op(name, at);
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(D));
  const auto x = source(op, l, a, p.src0BlkStride, p.src0RepStride, "src0");
  const auto y = source(op, l, b, p.src1BlkStride, p.src1RepStride, "src1");
  source(op, l, dst, p.dstBlkStride, p.dstRepStride, "dst");
  sweep(l, Three<D, S, f>(), target(op, l, dst, p.dstBlkStride, p.dstRepStride), x, y);
}

template <class D, class S>
struct ScaledSum {
  S s;
  void operator()(size_t n, D* d, const S* a) const {
    for (size_t i = 0; i < n; ++i) d[i] = add(d[i], mul(static_cast<D>(a[i]), static_cast<D>(s)));
  }
};

template <class D, class S>
inline constexpr bool same_or_wider =
    one_of<D, half, float> && (std::is_same_v<D, S> || (std::is_same_v<D, float> && std::is_same_v<S, half>));

}  // namespace detail

#define ASCENDC_THREE(Name, f, allowed, types)                                                                        \
  template <class T, class U, bool isSetMask = true>                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, int32_t count,         \
            ASCENDC_AT) {                                                                                             \
    static_assert(allowed, #Name " takes " types);                                                                    \
    detail::three<T, U, detail::f<T, U>>(#Name, dst, src0, src1, detail::counted<isSetMask>(count, at, #Name), at);   \
  }                                                                                                                   \
  template <class T, class U, bool isSetMask = true>                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, uint64_t mask,         \
            int32_t repeatTime, const BinaryRepeatParams& repeatParams, ASCENDC_AT) {                                 \
    static_assert(allowed, #Name " takes " types);                                                                    \
    detail::three<T, U, detail::f<T, U>, isSetMask>(#Name, dst, src0, src1, mask, repeatTime, repeatParams, at);      \
  }                                                                                                                   \
  template <class T, class U, bool isSetMask = true>                                                                  \
  void Name(const LocalTensor<T>& dst, const LocalTensor<U>& src0, const LocalTensor<U>& src1, const uint64_t mask[], \
            int32_t repeatTime, const BinaryRepeatParams& repeatParams, ASCENDC_AT) {                                 \
    static_assert(allowed, #Name " takes " types);                                                                    \
    detail::three<T, U, detail::f<T, U>, isSetMask>(#Name, dst, src0, src1, mask, repeatTime, repeatParams, at);      \
  }

ASCENDC_THREE(MulAddDst, mul_add_dst, (detail::same_or_wider<T, U>), "half, float, or half summed up in float")
ASCENDC_THREE(FusedMulAdd, fused_mul_add, (std::is_same_v<T, U> && detail::one_of<T, half, float>), "half, float")
ASCENDC_THREE(FusedMulAddRelu, fused_mul_add_relu, (std::is_same_v<T, U> && detail::one_of<T, half, float>),
              "half, float")
ASCENDC_THREE(AddRelu, add_relu, (std::is_same_v<T, U> && detail::one_of<T, half, float, int16_t>),
              "half, float, int16_t")
ASCENDC_THREE(SubRelu, sub_relu, (std::is_same_v<T, U> && detail::one_of<T, half, float, int16_t>),
              "half, float, int16_t")
#undef ASCENDC_THREE

// dst += src * scalar
template <class T, class U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const detail::Plain<U>& scalar, int32_t count,
          ASCENDC_AT) {
  static_assert(detail::same_or_wider<T, U>, "Axpy takes half, float, or half summed up in float");
  const detail::Op op("Axpy", at);
  op.need_count(count);
  const uint64_t n = static_cast<uint64_t>(detail::counted<isSetMask>(count, at, "Axpy"));
  const U* x = op.reads(src, n * sizeof(U));
  op.reads(dst, n * sizeof(T), "dst");
  detail::ScaledSum<T, U>{scalar}(n, op.writes(dst, n * sizeof(T)), x);
}
namespace detail {
template <class T, class U, bool set, class Mask>
void axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, U scalar, Mask mask, int32_t repeats,
          const UnaryRepeatParams& p, Site at) {
  static_assert(same_or_wider<T, U>, "Axpy takes half, float, or half summed up in float");
  const Op op("Axpy", at);
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(T));
  const auto x = source(op, l, src, p.srcBlkStride, p.srcRepStride);
  source(op, l, dst, p.dstBlkStride, p.dstRepStride, "dst");
  sweep(l, ScaledSum<T, U>{scalar}, target(op, l, dst, p.dstBlkStride, p.dstRepStride), x);
}
}  // namespace detail
template <class T, class U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const detail::Plain<U>& scalar, uint64_t mask,
          int32_t repeatTime, const UnaryRepeatParams& repeatParams, ASCENDC_AT) {
  detail::axpy<T, U, isSetMask>(dst, src, scalar, mask, repeatTime, repeatParams, at);
}
template <class T, class U, bool isSetMask = true>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const detail::Plain<U>& scalar, const uint64_t mask[],
          int32_t repeatTime, const UnaryRepeatParams& repeatParams, ASCENDC_AT) {
  detail::axpy<T, U, isSetMask>(dst, src, scalar, mask, repeatTime, repeatParams, at);
}

}  // namespace AscendC
