// DataCopy, DataCopyPad, Copy: between global memory and the unified buffer, and inside that. Called by kernels.
// What it is not: copies to the cube's buffers (cube.h).
#pragma once

#include "ascendc/atomic.h"
#include "ascendc/lanes.h"

namespace AscendC {
namespace detail {

// Pieces of `length` bytes, with gaps.
struct Pieces {
  uint64_t count, length, local_step, global_step;  // steps: from the start of one piece to that of the next
  uint64_t local_span(uint64_t last) const { return count ? (count - 1) * local_step + last : 0; }
  Strided local(uint64_t each) const { return {count, each, local_step}; }
};

inline void need_blocks(const Op& op, uint64_t bytes) {
  if (bytes % 32)
    op.fail(
        format("%llu bytes are no multiple of 32: DataCopyPad copies such", static_cast<unsigned long long>(bytes)));
}
inline void need_pieces(const Op& op, uint64_t count, uint64_t length, uint64_t most) {
  if (count > 4095) op.fail(format("blockCount is %llu: at most 4095", static_cast<unsigned long long>(count)));
  if (length > most)
    op.fail(format("blockLen is %llu: at most %llu", static_cast<unsigned long long>(length),
                   static_cast<unsigned long long>(most)));
}

// Numbers of 4 bits are copied as bytes.
#define ASCENDC_WHOLE_BYTES(Name) \
  static_assert(per_byte<T> == 1, \
                Name " takes no int4b_t: copy pairs of them as int8_t, and ReinterpretCast<int4b_t> the tensor")

template <class T>
void from_global(const Op& op, const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Pieces& p) {
  ASCENDC_WHOLE_BYTES("DataCopy");
  auto* to = reinterpret_cast<uint8_t*>(op.writes(dst, p.local_span(p.length), "dst", 32, p.local(p.length)));
  const auto* from = reinterpret_cast<const uint8_t*>(src.GetPhyAddr());
  if (p.count) src.check(0, (p.count - 1) * p.global_step + p.length, op.name(), op.at());
  op.reads_global({from, p.length, p.count, p.global_step});
  for (uint64_t i = 0; i < p.count; ++i) memcpy(to + i * p.local_step, from + i * p.global_step, p.length);
}

template <class T>
void to_global(const Op& op, const GlobalTensor<T>& dst, const LocalTensor<T>& src, const Pieces& p) {
  ASCENDC_WHOLE_BYTES("DataCopy");
  need_atomic_type<T>(op.core(), op.name(), op.at());
  const auto* from =
      reinterpret_cast<const uint8_t*>(op.reads(src, p.local_span(p.length), "src", 32, p.local(p.length)));
  auto* to = reinterpret_cast<uint8_t*>(dst.GetPhyAddr(0));
  if (p.length % sizeof(T))
    op.fail(format("blockLen of %llu bytes is no multiple of the type's %zu", static_cast<unsigned long long>(p.length),
                   sizeof(T)));
  if (p.count) dst.check(0, (p.count - 1) * p.global_step + p.length, op.name(), op.at());
  const GlobalUse use(op.core(), op.unit(), SOFTNPU_ASCENDC_WRITES,
                      {to, p.length, p.count, p.global_step, from, p.local_step}, op.name(), op.at());
  for (uint64_t i = 0; i < p.count; ++i)
    store(op.core(), reinterpret_cast<T*>(to + i * p.global_step), reinterpret_cast<const T*>(from + i * p.local_step),
          p.length / sizeof(T));
}

// Who copies inside a core: the vector unit, or from L1 to the bias table the load engine.
template <class T>
Unit inside(const LocalTensor<T>& dst, const LocalTensor<T>& src) {
  ASCENDC_WHOLE_BYTES("DataCopy");
  return dst.GetPosition() == TPosition::C2 && src.GetPosition() == TPosition::C1 ? kLoad : kVector;
}

inline uint64_t up32(uint64_t n) { return (n + 31) / 32 * 32; }

template <class T, class Count, class Length>
void pad_in(const LocalTensor<T>& dst, const GlobalTensor<T>& src, Count count, Length length, uint64_t src_gap,
            uint64_t dst_gap, bool pad, uint32_t left, uint32_t right, T value, uint64_t most, Site at,
            bool compact = false) {
  ASCENDC_WHOLE_BYTES("DataCopyPad");
  const Op op("DataCopyPad", at, kCopyIn);
  need_pieces(op, count, length, most);
  if (length % sizeof(T))
    op.fail(format("blockLen of %llu bytes is no multiple of the type's %zu", static_cast<unsigned long long>(length),
                   sizeof(T)));
  if (left * sizeof(T) > 32 || right * sizeof(T) > 32)
    op.fail(format("paddings of %u and %u elements: each is at most 32 bytes", left, right));
  if (compact && (left || right || dst_gap))
    op.fail("PaddingMode::Compact puts the pieces side by side: it takes no paddings and no dstStride");
  const uint64_t data = length + (left + right) * sizeof(T), step = compact ? length : up32(data) + dst_gap * 32;
  const Pieces p{static_cast<uint64_t>(count), static_cast<uint64_t>(length), step, length + src_gap};
  const uint64_t span = compact ? up32(p.count * length) : p.local_span(up32(data));
  auto* to = reinterpret_cast<uint8_t*>(
      op.writes(dst, span, "dst", 32, compact ? Strided{1, span, span} : p.local(up32(data))));
  const auto* from = reinterpret_cast<const uint8_t*>(src.GetPhyAddr());
  if (count) src.check(0, (p.count - 1) * p.global_step + p.length, op.name(), op.at());
  op.reads_global({from, p.length, p.count, p.global_step});
  // What fills a block up is the piece's first element where there are no paddings, and with isPad as they are. Else it means nothing, as
  // paddings without isPad do: with the kernel checker it is all ones, a NaN.
  const uint8_t rest = op.core().hazards.on() ? 0xff : 0;
  const bool plain = left == 0 && right == 0;
  if (!pad) memset(static_cast<void*>(&value), rest, sizeof value);
  for (uint64_t i = 0; i < p.count; ++i) {
    uint8_t* start = to + i * step;
    const uint8_t* piece = from + i * p.global_step;
    std::fill_n(reinterpret_cast<T*>(start), left, value);
    memcpy(start + left * sizeof(T), piece, length);
    if (compact) continue;
    T filler = value;
    if (plain && length != 0) memcpy(static_cast<void*>(&filler), piece, sizeof filler);
    std::fill_n(reinterpret_cast<T*>(start + left * sizeof(T) + length), (up32(data) - length) / sizeof(T) - left,
                filler);
  }
  if (compact) memset(to + p.count * length, rest, span - p.count * length);
}
#undef ASCENDC_WHOLE_BYTES

}  // namespace detail

template <class T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t count, ASCENDC_AT) {
  const detail::Op op("DataCopy", at, detail::kCopyIn);
  detail::need_blocks(op, uint64_t{count} * sizeof(T));
  detail::from_global(op, dst, src, {1, uint64_t{count} * sizeof(T), 0, 0});
}
template <class T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, ASCENDC_AT) {
  const detail::Op op("DataCopy", at, detail::kCopyOut);
  detail::need_blocks(op, uint64_t{count} * sizeof(T));
  detail::to_global(op, dst, src, {1, uint64_t{count} * sizeof(T), 0, 0});
}
template <class T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, ASCENDC_AT) {
  const detail::Op op("DataCopy", at, detail::inside(dst, src));
  detail::need_blocks(op, uint64_t{count} * sizeof(T));
  const T* from = op.reads(src, uint64_t{count} * sizeof(T));
  memmove(static_cast<void*>(op.writes(dst, uint64_t{count} * sizeof(T))), from, uint64_t{count} * sizeof(T));
}

// blockCount pieces of blockLen blocks; the strides are the gaps between them, in blocks.
template <class T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p, ASCENDC_AT) {
  const detail::Op op("DataCopy", at, detail::kCopyIn);
  detail::need_pieces(op, p.blockCount, p.blockLen, 65535);
  detail::from_global(
      op, dst, src,
      {p.blockCount, p.blockLen * 32ull, (p.blockLen + p.dstStride) * 32ull, (p.blockLen + p.srcStride) * 32ull});
}
template <class T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p, ASCENDC_AT) {
  const detail::Op op("DataCopy", at, detail::kCopyOut);
  detail::need_pieces(op, p.blockCount, p.blockLen, 65535);
  detail::to_global(
      op, dst, src,
      {p.blockCount, p.blockLen * 32ull, (p.blockLen + p.srcStride) * 32ull, (p.blockLen + p.dstStride) * 32ull});
}
template <class T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p, ASCENDC_AT) {
  const detail::Op op("DataCopy", at, detail::inside(dst, src));
  detail::need_pieces(op, p.blockCount, p.blockLen, 65535);
  if (p.blockCount == 0) return;
  const uint64_t length = p.blockLen * 32ull, from_step = length + p.srcStride * 32ull,
                 to_step = length + p.dstStride * 32ull;
  const detail::Strided read{p.blockCount, length, from_step}, written{p.blockCount, length, to_step};
  const auto* from =
      reinterpret_cast<const uint8_t*>(op.reads(src, (p.blockCount - 1) * from_step + length, "src", 32, read));
  auto* to = reinterpret_cast<uint8_t*>(op.writes(dst, (p.blockCount - 1) * to_step + length, "dst", 32, written));
  for (uint32_t i = 0; i < p.blockCount; ++i) memmove(to + i * to_step, from + i * from_step, length);
}

// Pieces of any number of bytes: gaps count bytes in global memory, blocks in the buffer, where each piece begins a block; in the compact
// mode, which the 950 has, they lie side by side.
template <class T, PaddingMode mode = PaddingMode::Normal>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& p,
                 const DataCopyPadExtParams<T>& pad, ASCENDC_AT) {
  static_assert(mode == PaddingMode::Normal || __NPU_ARCH__ == 3510,
                "DataCopyPad: the compact mode is of the 950: --npu-arch=dav-3510");
  detail::pad_in(dst, src, p.blockCount, p.blockLen, p.srcStride, p.dstStride, pad.isPad, pad.leftPadding,
                 pad.rightPadding, pad.paddingValue, 2097151, at, mode == PaddingMode::Compact);
}
template <class T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& p,
                 const DataCopyPadParams& pad, ASCENDC_AT) {
  T value;
  memcpy(static_cast<void*>(&value), &pad.paddingValue, sizeof value);
  detail::pad_in(dst, src, p.blockCount, p.blockLen, p.srcStride, p.dstStride, pad.isPad, pad.leftPadding,
                 pad.rightPadding, value, 65535, at);
}
template <class T, PaddingMode mode = PaddingMode::Normal>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& p, ASCENDC_AT) {
  static_assert(mode == PaddingMode::Normal || __NPU_ARCH__ == 3510,
                "DataCopyPad: the compact mode is of the 950: --npu-arch=dav-3510");
  const detail::Op op("DataCopyPad", at, detail::kCopyOut);
  detail::need_pieces(op, p.blockCount, p.blockLen, 2097151);
  if (mode == PaddingMode::Compact && p.srcStride)
    op.fail("PaddingMode::Compact takes the pieces from side by side: it takes no srcStride");
  const uint64_t step = mode == PaddingMode::Compact ? p.blockLen : detail::up32(p.blockLen) + p.srcStride * 32ull;
  detail::to_global(op, dst, src, {p.blockCount, p.blockLen, step, uint64_t{p.blockLen} + p.dstStride});
}
template <class T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& p, ASCENDC_AT) {
  const detail::Op op("DataCopyPad", at, detail::kCopyOut);
  detail::need_pieces(op, p.blockCount, p.blockLen, 65535);
  detail::to_global(
      op, dst, src,
      {p.blockCount, p.blockLen, detail::up32(p.blockLen) + p.srcStride * 32ull, uint64_t{p.blockLen} + p.dstStride});
}

namespace detail {
template <class T, bool set, class Mask>
void copy_lanes(const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask mask, int32_t repeats,
                const CopyRepeatParams& p, Site at) {
  static_assert(one_of<T, half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t>,
                "Copy takes half, bfloat16_t, float, int16_t, uint16_t, int32_t, uint32_t");
  const Op op("Copy", at);
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(T));
  const auto x = source(op, l, src, p.srcStride, p.srcRepeatSize);
  sweep(
      l, [](size_t n, T* d, const T* a) { memmove(static_cast<void*>(d), a, n * sizeof(T)); },
      target(op, l, dst, p.dstStride, p.dstRepeatSize), x);
}
}  // namespace detail

// Inside the buffer, by mask and repeats.
template <class T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint64_t mask, int32_t repeatTime,
          const CopyRepeatParams& repeatParams, ASCENDC_AT) {
  detail::copy_lanes<T, isSetMask>(dst, src, mask, repeatTime, repeatParams, at);
}
template <class T, bool isSetMask = true>
void Copy(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], int32_t repeatTime,
          const CopyRepeatParams& repeatParams, ASCENDC_AT) {
  detail::copy_lanes<T, isSetMask>(dst, src, mask, repeatTime, repeatParams, at);
}

}  // namespace AscendC
