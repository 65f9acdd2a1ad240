// Duplicate, Brcb, CreateVecIndex, ArithProgression: tensors made from a number, or from few. Called by kernels.
#pragma once

#include "ascendc/arithmetic.h"
#include "ascendc/lanes.h"

namespace AscendC {
namespace detail {

template <class T>
inline constexpr bool fillable = one_of<T, half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t>;
#define ASCENDC_FILLABLE(Name) \
  static_assert(detail::fillable<T>, #Name " takes half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t")

template <class T, bool set, class Mask>
void duplicate(const LocalTensor<T>& dst, T value, Mask mask, int32_t repeats, uint16_t blk, uint8_t rep, Site at) {
  ASCENDC_FILLABLE(Duplicate);
  const Op op("Duplicate", at);
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(T));
  sweep(l, [value](size_t n, T* d) { std::fill_n(d, n, value); }, target(op, l, dst, blk, rep));
}

}  // namespace detail

template <class T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const detail::Plain<T>& scalar, int32_t count, ASCENDC_AT) {
  ASCENDC_FILLABLE(Duplicate);
  const detail::Op op("Duplicate", at);
  op.need_count(count);
  const int64_t n = detail::counted<isSetMask>(count, at, "Duplicate");
  std::fill_n(op.writes(dst, static_cast<uint64_t>(n) * sizeof(T)), n, scalar);
}
template <class T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const detail::Plain<T>& scalar, uint64_t mask, int32_t repeatTime,
               uint16_t dstBlockStride, uint8_t dstRepeatStride, ASCENDC_AT) {
  detail::duplicate<T, isSetMask>(dst, scalar, mask, repeatTime, dstBlockStride, dstRepeatStride, at);
}
template <class T, bool isSetMask = true>
void Duplicate(const LocalTensor<T>& dst, const detail::Plain<T>& scalar, const uint64_t mask[], int32_t repeatTime,
               uint16_t dstBlockStride, uint8_t dstRepeatStride, ASCENDC_AT) {
  detail::duplicate<T, isSetMask>(dst, scalar, mask, repeatTime, dstBlockStride, dstRepeatStride, at);
}

// Each repeat fills 8 blocks, each with one of 8 elements.
template <class T>
void Brcb(const LocalTensor<T>& dst, const LocalTensor<T>& src0, int32_t repeatTime, const BrcbRepeatParams& p,
          ASCENDC_AT) {
  ASCENDC_FILLABLE(Brcb);
  const detail::Op op("Brcb", at);
  op.need_repeats(repeatTime);
  if (repeatTime == 0) return;
  const uint64_t repeats = static_cast<uint64_t>(repeatTime);
  constexpr uint32_t kPer = 32 / sizeof(T);
  const T* a = op.reads(src0, repeats * 8 * sizeof(T), "src0");
  T* d = op.writes(dst, ((repeats - 1) * p.dstRepStride + 7ull * p.dstBlkStride + 1) * 32, "dst", 32,
                   [&](uint64_t, auto f) {
                     for (uint64_t r = 0; r < repeats; ++r)
                       for (uint64_t i = 0; i < 8; ++i) f((r * p.dstRepStride + i * p.dstBlkStride) * 32, 32);
                   });
  for (uint64_t r = 0; r < repeats; ++r)
    for (uint32_t i = 0; i < 8; ++i)
      std::fill_n(d + (r * p.dstRepStride + i * p.dstBlkStride) * kPer, kPer, a[r * 8 + i]);
}

// first, first + diff, first + 2 diff, ...
template <class T>
void ArithProgression(const LocalTensor<T>& dst, const detail::Plain<T> firstValue, const detail::Plain<T> diffValue,
                      int32_t count, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float, int16_t, int32_t>,
                "ArithProgression takes half, float, int16_t, int32_t");
  const detail::Op op("ArithProgression", at);
  op.need_count(count);
  T* d = op.writes(dst, static_cast<uint64_t>(count) * sizeof(T));
  for (int32_t i = 0; i < count; ++i)
    d[i] = detail::narrow<T>(detail::widen(firstValue) + detail::widen(diffValue) * static_cast<detail::wide<T>>(i));
}
template <class T>
void CreateVecIndex(const LocalTensor<T>& dst, const detail::Plain<T>& firstValue, uint32_t count, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float, int16_t, int32_t>, "CreateVecIndex takes half, float, int16_t, int32_t");
  ArithProgression(dst, firstValue, T(1), static_cast<int32_t>(count), at);
}
namespace detail {

template <class T, class Mask>
void create_index(const LocalTensor<T>& dst, T first, Mask mask, uint8_t repeats, uint16_t blk, uint8_t rep, Site at) {
  static_assert(one_of<T, half, float, int16_t, int32_t>, "CreateVecIndex takes half, float, int16_t, int32_t");
  const Op op("CreateVecIndex", at);
  const Lanes l = lanes_of<true>(op, mask, repeats, 256 / sizeof(T));
  if (repeats > 1 && l.prefix != l.each)
    op.fail("several repeats with a mask that is not full: where their numbers go on is not documented");
  const auto o = target(op, l, dst, blk, rep);
  for (int r = 0; r < l.repeats; ++r)
    for (int i = 0; i < (r + 1 < l.repeats ? l.each : l.last); ++i)
      if (l.prefix >= 0 ? i < l.prefix : (l.bits[i / 64] >> (i % 64) & 1) != 0)
        *o.at(r, i) = narrow<T>(widen(first) + static_cast<wide<T>>(r * l.each + i));
}

}  // namespace detail

template <class T>
void CreateVecIndex(const LocalTensor<T>& dst, const detail::Plain<T>& firstValue, uint64_t mask, uint8_t repeatTime,
                    uint16_t dstBlkStride, uint8_t dstRepStride, ASCENDC_AT) {
  detail::create_index<T>(dst, firstValue, mask, repeatTime, dstBlkStride, dstRepStride, at);
}
template <class T>
void CreateVecIndex(const LocalTensor<T>& dst, const detail::Plain<T>& firstValue, uint64_t mask[], uint8_t repeatTime,
                    uint16_t dstBlkStride, uint8_t dstRepStride, ASCENDC_AT) {
  detail::create_index<T, const uint64_t*>(dst, firstValue, mask, repeatTime, dstBlkStride, dstRepStride, at);
}
#undef ASCENDC_FILLABLE

}  // namespace AscendC
