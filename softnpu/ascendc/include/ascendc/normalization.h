// LayerNorm and RmsNorm of [B, S, H] along H. Called by kernels. What it is not: a tiling; of the tiling structs only the lengths are
// read. Computed in float, rounded once. hLength is in whole blocks of 32 bytes, and originalHLength of its elements count.
#pragma once

#include "ascendc/each.h"

namespace AscendC {

// Of the host's GetLayerNormNDTilingInfo.
struct LayerNormTiling {
  uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0, inputXSize = 0, meanVarSize = 0,
           numberOfTmpBuf = 0, meanTmpTensorPos = 0, meanTmpTensorSize = 0, varianceTmpTensorPos = 0,
           varianceTmpTensorSize = 0, tmpBufSize = 0, oneTmpSize = 0, firstTmpStartPos = 0, secondTmpStartPos = 0,
           thirdTmpStartPos = 0, loopRound = 0, inputRoundSize = 0, inputTailSize = 0, inputTailPos = 0,
           meanVarRoundSize = 0, meanVarTailSize = 0, meanVarTailPos = 0, bshCurLength = 0, bsCurLength = 0;
  float lastDimValueBack = 0;
};
// Of the host's GetRmsNormTilingInfo.
struct RmsNormTiling {
  uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0;
  float reciprocalOfHLength = 0;
  uint32_t mainBshLength = 0, mainBsLength = 0, mainBsLengthAlign = 0, loopRound = 0, inputTailPos = 0,
           tailBshLength = 0, tailBsLength = 0;
};

namespace detail {

template <class T, class Tiling>
uint64_t normalized_rows(const Op& op, const Tiling& t) {
  if (t.originalHLength == 0 || t.originalHLength > t.hLength || uint64_t{t.hLength} * sizeof(T) % 32)
    op.fail(format("rows of %u elements, %u of which count: a row is whole blocks of 32 bytes", t.hLength,
                   t.originalHLength));
  return uint64_t{t.bLength} * t.sLength;
}

template <class T>
void layer_norm(const LocalTensor<T>& dst, const LocalTensor<T>& mean, const LocalTensor<T>& variance,
                const LocalTensor<T>& x, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
                const LocalTensor<uint8_t>* tmp, float epsilon, const LayerNormTiling& t, Site at) {
  static_assert(one_of<T, half, float>, "LayerNorm takes half, float");
  const Op op("LayerNorm", at);
  const uint64_t rows = normalized_rows<T>(op, t), h = t.hLength, n = t.originalHLength;
  if (tmp) scratch(op, *tmp);
  const T* a = op.reads(x, rows * h * sizeof(T), "inputX");
  const T *g = op.reads(gamma, n * sizeof(T), "gamma"), *b = op.reads(beta, n * sizeof(T), "beta");
  T* d = op.writes(dst, rows * h * sizeof(T), "output");
  T *m = op.writes(mean, rows * sizeof(T), "outputMean"), *v = op.writes(variance, rows * sizeof(T), "outputVariance");
  for (uint64_t r = 0; r < rows; ++r) {
    float sum = 0, squares = 0;
    for (uint64_t i = 0; i < n; ++i) sum += static_cast<float>(a[r * h + i]);
    const float middle = sum / static_cast<float>(n);
    for (uint64_t i = 0; i < n; ++i) {
      const float apart = static_cast<float>(a[r * h + i]) - middle;
      squares += apart * apart;
    }
    const float spread = squares / static_cast<float>(n), scale = 1 / std::sqrt(spread + epsilon);
    for (uint64_t i = 0; i < n; ++i)
      d[r * h + i] = static_cast<T>((static_cast<float>(a[r * h + i]) - middle) * scale * static_cast<float>(g[i]) +
                                    static_cast<float>(b[i]));
    m[r] = static_cast<T>(middle);
    v[r] = static_cast<T>(spread);
  }
}

template <class T>
void rms_norm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma,
              const LocalTensor<uint8_t>* tmp, float epsilon, const RmsNormTiling& t, Site at) {
  static_assert(one_of<T, half, float>, "RmsNorm takes half, float");
  const Op op("RmsNorm", at);
  const uint64_t rows = normalized_rows<T>(op, t), h = t.hLength, n = t.originalHLength;
  if (tmp) scratch(op, *tmp);
  const T *a = op.reads(src, rows * h * sizeof(T)), *g = op.reads(gamma, n * sizeof(T), "gamma");
  T* d = op.writes(dst, rows * h * sizeof(T));
  for (uint64_t r = 0; r < rows; ++r) {
    float squares = 0;
    for (uint64_t i = 0; i < n; ++i) squares += static_cast<float>(a[r * h + i]) * static_cast<float>(a[r * h + i]);
    const float scale = 1 / std::sqrt(squares / static_cast<float>(n) + epsilon);
    for (uint64_t i = 0; i < n; ++i)
      d[r * h + i] = static_cast<T>(static_cast<float>(a[r * h + i]) * scale * static_cast<float>(g[i]));
  }
}

}  // namespace detail

template <class T, bool isReuseSource = false>
void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
               const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
               const LocalTensor<uint8_t>& sharedTmpBuffer, const detail::Plain<T> epsilon,
               const LayerNormTiling& tiling, ASCENDC_AT) {
  detail::layer_norm(output, outputMean, outputVariance, inputX, gamma, beta, &sharedTmpBuffer, epsilon, tiling, at);
}
template <class T, bool isReuseSource = false>
void LayerNorm(const LocalTensor<T>& output, const LocalTensor<T>& outputMean, const LocalTensor<T>& outputVariance,
               const LocalTensor<T>& inputX, const LocalTensor<T>& gamma, const LocalTensor<T>& beta,
               const detail::Plain<T> epsilon, const LayerNormTiling& tiling, ASCENDC_AT) {
  detail::layer_norm(output, outputMean, outputVariance, inputX, gamma, beta, nullptr, epsilon, tiling, at);
}
template <class T, bool isBasicBlock = false>
void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma,
             const LocalTensor<uint8_t>& sharedTmpBuffer, const detail::Plain<T> epsilon, const RmsNormTiling& tiling,
             ASCENDC_AT) {
  detail::rms_norm(dst, src, gamma, &sharedTmpBuffer, epsilon, tiling, at);
}
template <class T, bool isBasicBlock = false>
void RmsNorm(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& gamma,
             const detail::Plain<T> epsilon, const RmsNormTiling& tiling, ASCENDC_AT) {
  detail::rms_norm(dst, src, gamma, nullptr, epsilon, tiling, at);
}

}  // namespace AscendC
