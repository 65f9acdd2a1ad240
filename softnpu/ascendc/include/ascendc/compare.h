// Compare, CompareScalar: one bit an element into a tensor of uint8_t, or into the core's compare mask. Called by kernels.
// What it is not: the choice by those bits (select.h).
#pragma once

#include <type_traits>

#include "ascendc/lanes.h"

namespace AscendC {
namespace detail {

template <class T>
bool holds(CMPMODE mode, T a, T b) {
  switch (mode) {
    case CMPMODE::LT:
      return a < b;
    case CMPMODE::GT:
      return a > b;
    case CMPMODE::EQ:
      return a == b;
    case CMPMODE::LE:
      return a <= b;
    case CMPMODE::GE:
      return a >= b;
    case CMPMODE::NE:
      return a != b;
  }
  return false;
}

inline void put_bit(uint8_t* bits, size_t i, bool value) {
  bits[i / 8] = static_cast<uint8_t>((bits[i / 8] & ~(1u << (i % 8))) | (static_cast<unsigned>(value) << (i % 8)));
}
inline bool get_bit(const uint8_t* bits, size_t i) { return bits[i / 8] >> (i % 8) & 1; }

// The 950 compares all types by all modes.
template <class T>
inline constexpr bool comparable =
    one_of<T, half, float, int32_t> || (__NPU_ARCH__ == 3510 && (std::is_arithmetic_v<T> || is_float<T>));

#define ASCENDC_COMPARABLE(Name)                                                                               \
  static_assert(detail::comparable<T>,                                                                         \
                #Name " takes half, float, int32_t (EQ); for --npu-arch=dav-3510 all numbers of whole bytes"); \
  static_assert(detail::one_of<U, uint8_t, int8_t, uint16_t>, #Name " writes bits: dst is a LocalTensor<uint8_t>")

template <class T>
void need_mode(const Op& op, CMPMODE mode) {
  if (__NPU_ARCH__ != 3510 && std::is_same_v<T, int32_t> && mode != CMPMODE::EQ)
    op.fail("int32_t is compared by CMPMODE::EQ alone, but for --npu-arch=dav-3510");
}

// The 950 compares by its registers, of which the last need not be full.
template <class T>
void need_whole_repeats(const Op& op, uint64_t count) {
  if (__NPU_ARCH__ != 3510 && count * sizeof(T) % 256)
    op.fail(format("%llu elements are %llu bytes, which is not a multiple of 256",
                   static_cast<unsigned long long>(count), static_cast<unsigned long long>(count * sizeof(T))));
}

// Element e of repeat r is bit r * each + e of dst.
template <class U, class T, bool set, class Mask>
void compare(const char* name, const LocalTensor<U>& dst, const LocalTensor<T>& a, const LocalTensor<T>* b, T scalar,
             CMPMODE mode, Mask mask, int32_t repeats, const BinaryRepeatParams& p, Site at) {
  static_assert(sizeof(T) >= 2, "Compare and CompareScalar of numbers of 8 bits take a count");
  const Op op(name, at);
  need_mode<T>(op, mode);
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(T));
  const auto x = source(op, l, a, p.src0BlkStride, p.src0RepStride, "src0");
  const auto y = b ? source(op, l, *b, p.src1BlkStride, p.src1RepStride, "src1") : x;
  auto* bits = reinterpret_cast<uint8_t*>(op.writes(dst, static_cast<uint64_t>(l.repeats) * l.each / 8));
  // Lanes that the mask leaves out give 0.
  for (int r = 0; r < l.repeats; ++r)
    for (int e = 0; e < l.each; ++e) {
      const bool active = e < (r + 1 < l.repeats ? l.each : l.last) &&
                          (l.prefix >= 0 ? e < l.prefix : (l.bits[e / 64] >> (e % 64) & 1) != 0);
      put_bit(bits, static_cast<size_t>(r) * l.each + e, active && holds(mode, *x.at(r, e), b ? *y.at(r, e) : scalar));
    }
}

}  // namespace detail

template <class T, class U>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
             uint32_t count, ASCENDC_AT) {
  ASCENDC_COMPARABLE(Compare);
  const detail::Op op("Compare", at);
  detail::need_mode<T>(op, cmpMode);
  detail::need_whole_repeats<T>(op, count);
  const T *a = op.reads(src0, count * sizeof(T), "src0"), *b = op.reads(src1, count * sizeof(T), "src1");
  auto* bits = reinterpret_cast<uint8_t*>(op.writes(dst, (count + 7) / 8));
  for (uint32_t i = 0; i < count; ++i) detail::put_bit(bits, i, detail::holds(cmpMode, a[i], b[i]));
}
template <class T, class U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
             uint64_t mask, int32_t repeatTime, const BinaryRepeatParams& repeatParams, ASCENDC_AT) {
  ASCENDC_COMPARABLE(Compare);
  detail::compare<U, T, isSetMask>("Compare", dst, src0, &src1, T(), cmpMode, mask, repeatTime, repeatParams, at);
}
template <class T, class U, bool isSetMask = true>
void Compare(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode,
             const uint64_t mask[], int32_t repeatTime, const BinaryRepeatParams& repeatParams, ASCENDC_AT) {
  ASCENDC_COMPARABLE(Compare);
  detail::compare<U, T, isSetMask>("Compare", dst, src0, &src1, T(), cmpMode, mask, repeatTime, repeatParams, at);
}

template <class T, class U>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const detail::Plain<T> scalar,
                   CMPMODE cmpMode, uint32_t count, ASCENDC_AT) {
  ASCENDC_COMPARABLE(CompareScalar);
  const detail::Op op("CompareScalar", at);
  detail::need_mode<T>(op, cmpMode);
  detail::need_whole_repeats<T>(op, count);
  const T* a = op.reads(src0, count * sizeof(T), "src0");
  auto* bits = reinterpret_cast<uint8_t*>(op.writes(dst, (count + 7) / 8));
  for (uint32_t i = 0; i < count; ++i) detail::put_bit(bits, i, detail::holds(cmpMode, a[i], static_cast<T>(scalar)));
}
template <class T, class U, bool isSetMask = true>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const detail::Plain<T> scalar,
                   CMPMODE cmpMode, uint64_t mask, int32_t repeatTime, const UnaryRepeatParams& p, ASCENDC_AT) {
  ASCENDC_COMPARABLE(CompareScalar);
  const BinaryRepeatParams both(1, static_cast<uint8_t>(p.srcBlkStride), 1, 8, p.srcRepStride, 8);
  detail::compare<U, T, isSetMask>("CompareScalar", dst, src0, static_cast<const LocalTensor<T>*>(nullptr), scalar,
                                   cmpMode, mask, repeatTime, both, at);
}
template <class T, class U, bool isSetMask = true>
void CompareScalar(const LocalTensor<U>& dst, const LocalTensor<T>& src0, const detail::Plain<T> scalar,
                   CMPMODE cmpMode, const uint64_t mask[], int32_t repeatTime, const UnaryRepeatParams& p, ASCENDC_AT) {
  ASCENDC_COMPARABLE(CompareScalar);
  const BinaryRepeatParams both(1, static_cast<uint8_t>(p.srcBlkStride), 1, 8, p.srcRepStride, 8);
  detail::compare<U, T, isSetMask>("CompareScalar", dst, src0, static_cast<const LocalTensor<T>*>(nullptr), scalar,
                                   cmpMode, mask, repeatTime, both, at);
}
#undef ASCENDC_COMPARABLE

// One repeat, into the core's compare mask (Select with VSEL_CMPMASK_SPR reads it).
template <class T, bool isSetMask = true>
void Compare(const LocalTensor<T>& src0, const LocalTensor<T>& src1, CMPMODE cmpMode, uint64_t mask,
             const BinaryRepeatParams& p, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float>, "Compare into the compare mask takes half, float");
  const detail::Op op("Compare", at);
  const detail::Lanes l = detail::lanes_of<isSetMask>(op, mask, 1, 256 / sizeof(T));
  const auto x = detail::source(op, l, src0, p.src0BlkStride, p.src0RepStride, "src0");
  const auto y = detail::source(op, l, src1, p.src1BlkStride, p.src1RepStride, "src1");
  auto* bits = reinterpret_cast<uint8_t*>(op.core().compared);
  for (int e = 0; e < l.each; ++e)
    if (l.prefix >= 0 ? e < l.prefix : (l.bits[e / 64] >> (e % 64) & 1) != 0)
      detail::put_bit(bits, e, detail::holds(cmpMode, *x.at(0, e), *y.at(0, e)));
}

namespace detail {
// What is right of = in dst = src0 < src1.
template <class T>
struct Compared {
  CMPMODE mode;
  LocalTensor<T> src0, src1;
};
}  // namespace detail
#define ASCENDC_OPERATOR(op, mode)                                                          \
  template <class T>                                                                        \
  detail::Compared<T> operator op(const LocalTensor<T>& src0, const LocalTensor<T>& src1) { \
    return {CMPMODE::mode, src0, src1};                                                     \
  }
ASCENDC_OPERATOR(<, LT)
ASCENDC_OPERATOR(>, GT)
ASCENDC_OPERATOR(==, EQ)
ASCENDC_OPERATOR(<=, LE)
ASCENDC_OPERATOR(>=, GE)
ASCENDC_OPERATOR(!=, NE)
#undef ASCENDC_OPERATOR

// The compare mask to and from 16 bytes of a tensor.
template <class T>
void GetCmpMask(const LocalTensor<T>& dst, ASCENDC_AT) {
  const detail::Op op("GetCmpMask", at);
  memcpy(static_cast<void*>(op.writes(dst, 16, "dst", 16)), op.core().compared, 16);
}
template <class T>
void SetCmpMask(const LocalTensor<T>& src, ASCENDC_AT) {
  const detail::Op op("SetCmpMask", at);
  memcpy(op.core().compared, op.reads(src, 16, "src", 16), 16);
}

}  // namespace AscendC
