// Select: by the bits of Compare, an element of one tensor or of another (or a number). Called by kernels.
// What it is not: the comparison (compare.h).
#pragma once

#include "ascendc/compare.h"

namespace AscendC {
namespace detail {

// Bits of element e of repeat r: with a register the same bits for each repeat, else bit r * each + e. No `chosen`: the compare mask.
template <class T, class U, bool set, class Mask>
void select(const LocalTensor<T>& dst, const LocalTensor<U>* chosen, const LocalTensor<T>& a, const LocalTensor<T>* b,
            T scalar, SELMODE mode, Mask mask, int32_t repeats, const BinaryRepeatParams& p, Site at) {
  static_assert(one_of<T, half, float>, "Select takes half, float");
  const Op op("Select", at);
  const bool by_register = mode == SELMODE::VSEL_CMPMASK_SPR;
  if ((b == nullptr) != (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE))
    op.fail(b ? "VSEL_TENSOR_SCALAR_MODE takes a number as its second operand"
              : "a number as second operand is VSEL_TENSOR_SCALAR_MODE");
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(T));
  const auto x = source(op, l, a, p.src0BlkStride, p.src0RepStride, "src0");
  const auto y = b ? source(op, l, *b, p.src1BlkStride, p.src1RepStride, "src1") : x;
  const uint64_t bytes = by_register ? 16 : static_cast<uint64_t>(l.repeats) * l.each / 8;
  const auto* bits = chosen
                         ? reinterpret_cast<const uint8_t*>(op.reads(*chosen, bytes, "selMask", by_register ? 16 : 32))
                         : reinterpret_cast<const uint8_t*>(op.core().compared);
  const auto d = target(op, l, dst, p.dstBlkStride, p.dstRepStride);
  for (int r = 0; r < l.repeats; ++r)
    for (int e = 0; e < (r + 1 < l.repeats ? l.each : l.last); ++e) {
      if (l.prefix >= 0 ? e >= l.prefix : !(l.bits[e / 64] >> (e % 64) & 1)) continue;
      const bool first = get_bit(bits, by_register ? static_cast<size_t>(e) : static_cast<size_t>(r) * l.each + e);
      *d.at(r, e) = first ? *x.at(r, e) : b ? *y.at(r, e) : scalar;
    }
}

template <class T, class U>
void select_count(const LocalTensor<T>& dst, const LocalTensor<U>& chosen, const LocalTensor<T>& a,
                  const LocalTensor<T>* b, T scalar, SELMODE mode, uint32_t count, Site at) {
  static_assert(one_of<T, half, float>, "Select takes half, float");
  const Op op("Select", at);
  if ((b == nullptr) != (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE))
    op.fail(b ? "VSEL_TENSOR_SCALAR_MODE takes a number as its second operand"
              : "a number as second operand is VSEL_TENSOR_SCALAR_MODE");
  const bool by_register = mode == SELMODE::VSEL_CMPMASK_SPR;
  const T* x = op.reads(a, count * sizeof(T), "src0");
  const T* y = b ? op.reads(*b, count * sizeof(T), "src1") : nullptr;
  const auto* bits = reinterpret_cast<const uint8_t*>(
      op.reads(chosen, by_register ? 16 : (count + 7) / 8, "selMask", by_register ? 16 : 32));
  T* d = op.writes(dst, count * sizeof(T));
  for (uint32_t i = 0; i < count; ++i) {
    const bool first = get_bit(bits, by_register ? i % (256 / sizeof(T)) : i);
    d[i] = first ? x[i] : y ? y[i] : scalar;
  }
}

}  // namespace detail

template <class T, class U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint32_t count, ASCENDC_AT) {
  detail::select_count(dst, selMask, src0, &src1, T(), selMode, count, at);
}
template <class T, class U>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, detail::Plain<T> src1,
            SELMODE selMode, uint32_t count, ASCENDC_AT) {
  detail::select_count(dst, selMask, src0, static_cast<const LocalTensor<T>*>(nullptr), src1, selMode, count, at);
}
template <class T, class U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, uint64_t mask, int32_t repeatTime,
            const BinaryRepeatParams& repeatParams, ASCENDC_AT) {
  detail::select<T, U, isSetMask>(dst, &selMask, src0, &src1, T(), selMode, mask, repeatTime, repeatParams, at);
}
template <class T, class U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0,
            const LocalTensor<T>& src1, SELMODE selMode, const uint64_t mask[], int32_t repeatTime,
            const BinaryRepeatParams& repeatParams, ASCENDC_AT) {
  detail::select<T, U, isSetMask>(dst, &selMask, src0, &src1, T(), selMode, mask, repeatTime, repeatParams, at);
}
template <class T, class U, bool isSetMask = true>
void Select(const LocalTensor<T>& dst, const LocalTensor<U>& selMask, const LocalTensor<T>& src0, detail::Plain<T> src1,
            SELMODE selMode, uint64_t mask, int32_t repeatTime, const BinaryRepeatParams& repeatParams, ASCENDC_AT) {
  detail::select<T, U, isSetMask>(dst, &selMask, src0, static_cast<const LocalTensor<T>*>(nullptr), src1, selMode, mask,
                                  repeatTime, repeatParams, at);
}
// By the compare mask (SetCmpMask, Compare without dst), of the elements that SetVectorMask names.
template <class T, SELMODE selMode>
void Select(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, uint8_t repeatTime,
            const BinaryRepeatParams& repeatParams, ASCENDC_AT) {
  static_assert(selMode == SELMODE::VSEL_CMPMASK_SPR,
                "Select without selMask takes VSEL_CMPMASK_SPR: give the other modes selMask");
  detail::select<T, uint8_t, false>(dst, nullptr, src0, &src1, T(), selMode, uint64_t{MASK_PLACEHOLDER}, repeatTime,
                                    repeatParams, at);
}

}  // namespace AscendC
