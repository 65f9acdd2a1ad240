// Gather, Gatherb, GatherMask, Scatter: elements or blocks by their byte offsets, or by bits. Called by kernels.
#pragma once

#include "ascendc/compare.h"
#include "ascendc/lanes.h"

namespace AscendC {
namespace detail {

template <class T>
inline constexpr bool movable = one_of<T, half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t>;
#define ASCENDC_MOVABLE(Name) \
  static_assert(detail::movable<T>, #Name " takes half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t")

// The element at a byte offset of src's start.
template <class T>
const T* by_offset(const Op& op, const LocalTensor<T>& src, const uint8_t* base, uint64_t offset) {
  const uint64_t room = src.room()->end(src.piece()) - src.GetPhyAddr();
  if (offset % sizeof(T))
    op.fail(format("offset %llu is not a multiple of the type's %zu bytes", static_cast<unsigned long long>(offset),
                   sizeof(T)));
  if (offset + sizeof(T) > room)
    op.fail(format("offset %llu lies beyond the %llu bytes of src in %s", static_cast<unsigned long long>(offset),
                   static_cast<unsigned long long>(room), src.room()->name().c_str()));
  return reinterpret_cast<const T*>(base + offset);
}

// What is read of src is at offsets: each(f) calls f(offset, bytes).
template <class T, class Each>
const uint8_t* somewhere(const Op& op, const LocalTensor<T>& src, Each each) {
  if (src.room() == nullptr) op.fail("src has no buffer: a LocalTensor comes from AllocTensor, DeQue or Get");
  const uint64_t room = src.room()->end(src.piece()) - src.GetPhyAddr();
  return reinterpret_cast<const uint8_t*>(op.reads(src, src.GetLength(), "src", 32, [&](uint64_t, auto f) {
    each([&](uint64_t offset, uint64_t bytes) {
      if (offset + bytes <= room) f(offset, bytes);  // else by_offset says so
    });
  }));
}

template <class T, class Mask>
void gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& offsets, uint32_t base,
            Mask mask, int32_t repeats, uint16_t rep, Site at) {
  ASCENDC_MOVABLE(Gather);
  const Op op("Gather", at);
  const Lanes l = lanes_of<true>(op, mask, repeats, 256 / sizeof(T));
  if (l.repeats == 0) return;
  const int before = std::min(l.highest() + 1, l.last);
  const uint32_t* at_lane =
      op.reads(offsets, (static_cast<uint64_t>(l.repeats - 1) * l.each + before) * 4, "srcOffset");
  const auto each = [&](auto one) {
    for (int r = 0; r < l.repeats; ++r)
      for (int e = 0; e < (r + 1 < l.repeats ? l.each : l.last); ++e)
        if (l.prefix >= 0 ? e < l.prefix : (l.bits[e / 64] >> (e % 64) & 1) != 0)
          one(r, e, uint64_t{base} + at_lane[r * l.each + e]);
  };
  const uint8_t* from =
      somewhere(op, src, [&](auto f) { each([&](int, int, uint64_t offset) { f(offset, sizeof(T)); }); });
  const auto d = target(op, l, dst, 1, rep);
  each([&](int r, int e, uint64_t offset) { *d.at(r, e) = *by_offset(op, src, from, offset); });
}

}  // namespace detail

template <class T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            uint32_t srcBaseAddr, uint32_t count, ASCENDC_AT) {
  ASCENDC_MOVABLE(Gather);
  const detail::Op op("Gather", at);
  const uint32_t* offsets = op.reads(srcOffset, uint64_t{count} * 4, "srcOffset");
  const uint8_t* from = detail::somewhere(op, src, [&](auto f) {
    for (uint32_t i = 0; i < count; ++i) f(uint64_t{srcBaseAddr} + offsets[i], sizeof(T));
  });
  T* d = op.writes(dst, uint64_t{count} * sizeof(T));
  for (uint32_t i = 0; i < count; ++i) d[i] = *detail::by_offset(op, src, from, uint64_t{srcBaseAddr} + offsets[i]);
}
template <class T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            uint32_t srcBaseAddr, uint64_t mask, int32_t repeatTime, uint16_t dstRepStride, ASCENDC_AT) {
  detail::gather(dst, src, srcOffset, srcBaseAddr, mask, repeatTime, dstRepStride, at);
}
template <class T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& srcOffset,
            uint32_t srcBaseAddr, const uint64_t mask[], int32_t repeatTime, uint16_t dstRepStride, ASCENDC_AT) {
  detail::gather(dst, src, srcOffset, srcBaseAddr, mask, repeatTime, dstRepStride, at);
}

// Blocks of 32 bytes: 8 a repeat.
template <class T>
void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& offset,
             int32_t repeatTime, const GatherRepeatParams& p, ASCENDC_AT) {
  ASCENDC_MOVABLE(Gatherb);
  const detail::Op op("Gatherb", at);
  op.need_repeats(repeatTime);
  if (repeatTime == 0) return;
  const uint64_t repeats = static_cast<uint64_t>(repeatTime);
  const uint32_t* offsets = op.reads(offset, repeats * 32, "offset");
  const uint8_t* from = detail::somewhere(op, src0, [&](auto f) {
    for (uint64_t i = 0; i < repeats * 8; ++i) f(offsets[i], 32);
  });
  auto* d = reinterpret_cast<uint8_t*>(op.writes(dst, ((repeats - 1) * p.dstRepStride + 7ull * p.dstBlkStride + 1) * 32,
                                                 "dst", 32, [&](uint64_t, auto f) {
                                                   for (uint64_t r = 0; r < repeats; ++r)
                                                     for (uint64_t i = 0; i < 8; ++i)
                                                       f((r * p.dstRepStride + i * p.dstBlkStride) * 32, 32);
                                                 }));
  for (uint64_t r = 0; r < repeats; ++r)
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t o = offsets[r * 8 + i];
      if (o % 32) op.fail(detail::format("offset %u is not a multiple of 32", o));
      detail::by_offset(op, src0, from, uint64_t{o} + 32 - sizeof(T));
      memcpy(d + (r * p.dstRepStride + i * p.dstBlkStride) * 32, from + o, 32);
    }
}

namespace detail {

// Keeps what `chosen(repeat, lane)` says, packed from dst's start. In counter mode (reduceMode) a repeat has `mask` elements.
template <class T, class Chosen>
uint64_t gather_mask(const Op& op, const LocalTensor<T>& dst, const LocalTensor<T>& src, bool counter, uint32_t mask,
                     const GatherMaskParams& p, Chosen chosen) {
  constexpr uint32_t kEach = 256 / sizeof(T), kPer = 32 / sizeof(T);
  const uint32_t each = counter ? mask : kEach;
  if (each == 0) op.fail("in counter mode (reduceMode) the mask is the number of elements of a repeat, and it is 0");
  if (p.repeatTimes == 0) return 0;
  const uint64_t last = static_cast<uint64_t>(p.repeatTimes - 1) * p.src0RepeatStride * 32;
  const T* a = op.reads(
      src,
      last + (static_cast<uint64_t>((each - 1) / kPer) * p.src0BlockStride * kPer + (each - 1) % kPer + 1) * sizeof(T),
      "src0", 32, [&](uint64_t, auto f) {
        for (uint64_t r = 0; r < p.repeatTimes; ++r)
          for (uint64_t b = 0; b < (each + kPer - 1) / kPer; ++b)
            f((r * p.src0RepeatStride + b * p.src0BlockStride) * 32, 32);
      });
  std::vector<T> kept;
  for (uint32_t r = 0; r < p.repeatTimes; ++r)
    for (uint32_t e = 0; e < each; ++e)
      if (chosen(r, e))
        kept.push_back(
            a[(static_cast<size_t>(r) * p.src0RepeatStride + static_cast<size_t>(e / kPer) * p.src0BlockStride) * kPer +
              e % kPer]);
  T* d = op.writes(dst, kept.size() * sizeof(T));
  std::copy(kept.begin(), kept.end(), d);
  op.core().rsvd = kept.size();
  return kept.size();
}

}  // namespace detail

// One of the patterns 1 to 7: every second element from 0 or 1 on, every fourth from 0, 1, 2 or 3 on, all.
template <class T, GatherMaskMode mode = GatherMaskMode::VERSION_V1>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern, const bool reduceMode,
                const uint32_t mask, const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt, ASCENDC_AT) {
  ASCENDC_MOVABLE(GatherMask);
  const detail::Op op("GatherMask", at);
  if (src1Pattern < 1 || src1Pattern > 7) op.fail(detail::format("%u is no pattern: they are 1 to 7", src1Pattern));
  const uint32_t every = src1Pattern <= 2 ? 2 : src1Pattern <= 6 ? 4 : 1;
  const uint32_t from = src1Pattern <= 2 ? src1Pattern - 1u : src1Pattern <= 6 ? src1Pattern - 3u : 0;
  rsvdCnt = detail::gather_mask(op, dst, src0, reduceMode, mask, gatherMaskParams,
                                [&](uint32_t, uint32_t e) { return e % every == from; });
}
// Bits of a tensor; those of the next repeat begin src1RepeatStride blocks on.
template <class T, class U, GatherMaskMode mode = GatherMaskMode::VERSION_V1>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<U>& src1Pattern,
                const bool reduceMode, const uint32_t mask, const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt,
                ASCENDC_AT) {
  ASCENDC_MOVABLE(GatherMask);
  static_assert(sizeof(T) == sizeof(U) && std::is_unsigned_v<U>,
                "GatherMask: the pattern is uint16_t for 16 bit types, uint32_t for 32 bit types");
  const detail::Op op("GatherMask", at);
  const uint32_t each = reduceMode ? mask : 256 / sizeof(T);
  const uint64_t stride = gatherMaskParams.src1RepeatStride * 32ull;
  const uint64_t bytes =
      gatherMaskParams.repeatTimes ? (gatherMaskParams.repeatTimes - 1) * stride + (each + 7) / 8 : 0;
  const auto* bits = reinterpret_cast<const uint8_t*>(op.reads(
      src1Pattern, bytes, "src1Pattern", 32, detail::Strided{gatherMaskParams.repeatTimes, (each + 7) / 8, stride}));
  rsvdCnt = detail::gather_mask(op, dst, src0, reduceMode, mask, gatherMaskParams,
                                [&](uint32_t r, uint32_t e) { return detail::get_bit(bits + r * stride, e); });
}

// dst[offset] = src. The chips of dav-2201 have no such instruction.
template <class T>
void Scatter(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint32_t>& dstOffset,
             uint32_t dstBaseAddr, uint32_t count, ASCENDC_AT) {
  static_assert(sizeof(T) != 0 && __NPU_ARCH__ == 3510,
                "Scatter: the chips of this architecture do not have it; dav-3510 has");
  ASCENDC_MOVABLE(Scatter);
  const detail::Op op("Scatter", at);
  const T* a = op.reads(src, uint64_t{count} * sizeof(T));
  const uint32_t* offsets = op.reads(dstOffset, uint64_t{count} * 4, "dstOffset");
  auto* base = reinterpret_cast<uint8_t*>(op.writes(dst, dst.GetLength(), "dst", 32, [&](uint64_t room, auto f) {
    for (uint32_t i = 0; i < count; ++i)
      if (const uint64_t o = uint64_t{dstBaseAddr} + offsets[i]; o + sizeof(T) <= room) f(o, sizeof(T));
  }));
  for (uint32_t i = 0; i < count; ++i)
    *const_cast<T*>(detail::by_offset(op, dst, base, uint64_t{dstBaseAddr} + offsets[i])) = a[i];
}
#undef ASCENDC_MOVABLE

}  // namespace AscendC
