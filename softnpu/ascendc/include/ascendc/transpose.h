// Transpose (16 x 16) and TransDataTo5HD (16 blocks of 32 bytes against another 16). Called by kernels.
// What it is not: Transpose with a shape and a kind; that is the high-level API.
#pragma once

#include "ascendc/lanes.h"

namespace AscendC {

inline constexpr int32_t NCHW_CONV_ADDR_LIST_SIZE = 16;

template <class T>
void Transpose(const LocalTensor<T>& dst, const LocalTensor<T>& src, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, int16_t, uint16_t>, "Transpose takes half, int16_t, uint16_t");
  const detail::Op op("Transpose", at);
  const T* a = op.reads(src, 512);
  T result[256];
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) result[j * 16 + i] = a[i * 16 + j];
  std::copy_n(result, 256, op.writes(dst, 512));
}

// 16 bit: dst[j][i] = src[i][j]. 32 bit: a block has 8 elements, so 16 of them make two blocks. 8 bit: half a block at a time.
template <class T>
void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE], uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                    const TransDataTo5HDParams& p, ASCENDC_AT) {
  static_assert(detail::one_of<T, int8_t, uint8_t, half, int16_t, uint16_t, float, int32_t, uint32_t>,
                "TransDataTo5HD takes int8_t, uint8_t, half, int16_t, uint16_t, float, int32_t, uint32_t");
  const detail::Op op("TransDataTo5HD", at);
  op.need_repeats(p.repeatTimes);
  constexpr int kPer = 32 / sizeof(T), kLoops = std::min(kPer, 16);
  for (uint32_t r = 0; r < p.repeatTimes; ++r) {
    T in[16][kPer];
    for (int i = 0; i < 16; ++i)
      memcpy(in[i], op.at_address(srcList[i] + uint64_t{r} * p.srcRepStride * 32, 32, false, "srcList"), 32);
    T* out[16];
    for (int i = 0; i < 16; ++i)
      out[i] = reinterpret_cast<T*>(op.at_address(dstList[i] + uint64_t{r} * p.dstRepStride * 32, 32, true, "dstList"));
    for (int j = 0; j < kLoops; ++j)
      for (int i = 0; i < 16; ++i) {
        if constexpr (sizeof(T) == 4)
          out[2 * j + i / 8][i % 8] = in[i][j];
        else if constexpr (sizeof(T) == 2)
          out[j][i] = in[i][j];
        else
          out[j][i + (p.dstHighHalf ? 16 : 0)] = in[i][j + (p.srcHighHalf ? 16 : 0)];
      }
  }
}
template <class T>
void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                    const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE], const TransDataTo5HDParams& p,
                    ASCENDC_AT) {
  uint64_t to[16], from[16];
  for (int i = 0; i < 16; ++i) to[i] = dstList[i].GetPhyAddr(), from[i] = srcList[i].GetPhyAddr();
  TransDataTo5HD<T>(to, from, p, at);
}

}  // namespace AscendC
