// UnPad: the columns that fill rows up to whole blocks are taken out again. Called by kernels. What it is not: Pad, which is refused.
#pragma once

#include "ascendc/each.h"

namespace AscendC {

struct UnPadParams {
  uint16_t leftPad = 0, rightPad = 0;
};
// Of the host's UnPadTilingFunc (host/matmul_tiling.h).
struct UnPadTiling {
  uint32_t srcHeight = 0, srcWidth = 0;
};

namespace detail {
template <class T>
void un_pad(const LocalTensor<T>& dst, const LocalTensor<T>& src, const UnPadParams& p, const UnPadTiling& t,
            const LocalTensor<uint8_t>* tmp, Site at) {
  static_assert(one_of<T, half, float, int16_t, uint16_t, int32_t, uint32_t>, "UnPad takes numbers of 16 and 32 bits");
  const Op op("UnPad", at);
  if (tmp) scratch(op, *tmp);
  if (uint64_t{t.srcWidth} * sizeof(T) % 32 || p.leftPad || p.rightPad >= t.srcWidth)
    op.fail(
        format("rows of %u elements without %u on the left and %u on the right: a row is whole blocks of 32 bytes, "
               "none are taken on the left and fewer than all on the right",
               t.srcWidth, p.leftPad, p.rightPad));
  const uint64_t width = t.srcWidth, kept = width - p.rightPad;
  const T* a = op.reads(src, t.srcHeight * width * sizeof(T));
  T* d = op.writes(dst, t.srcHeight * kept * sizeof(T));
  for (uint64_t i = 0; i < t.srcHeight; ++i) memmove(static_cast<void*>(d + i * kept), a + i * width, kept * sizeof(T));
}
}  // namespace detail

template <class T>
void UnPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, const UnPadParams& unPadParams,
           const UnPadTiling& tiling, ASCENDC_AT) {
  detail::un_pad(dst, src, unPadParams, tiling, nullptr, at);
}
template <class T>
void UnPad(const LocalTensor<T>& dst, const LocalTensor<T>& src, const UnPadParams& unPadParams,
           const LocalTensor<uint8_t>& sharedTmpBuffer, const UnPadTiling& tiling, ASCENDC_AT) {
  detail::un_pad(dst, src, unPadParams, tiling, &sharedTmpBuffer, at);
}

}  // namespace AscendC

using AscendC::UnPadTiling;
