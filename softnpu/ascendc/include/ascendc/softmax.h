// SoftMax, SimpleSoftMax, SoftmaxFlashV2, SoftmaxGrad, SoftmaxGradFront, AdjustSoftMaxRes: of each row of [m, k]. Called by kernels.
// What it is not: a tiling; the shape counts, and the tiling struct is read by none of them. Computed in float, rounded once; rows whose
// length is no multiple of a block have it rounded up (srcK), and what lies beyond oriSrcK is no part of the row.
#pragma once

#include <tuple>

#include "ascendc/each.h"

namespace AscendC {

// Of the host's SoftMaxTilingFunc.
struct SoftMaxTiling {
  uint32_t srcM = 0, srcK = 0, srcSize = 0, outMaxM = 0, outMaxK = 0, outMaxSize = 0, splitM = 0, splitK = 0,
           splitSize = 0, reduceM = 0, reduceK = 0, reduceSize = 0, rangeM = 0, tailM = 0, tailSplitSize = 0,
           tailReduceSize = 0;
};
struct SoftMaxShapeInfo {
  uint32_t srcM = 0, srcK = 0, oriSrcM = 0, oriSrcK = 0;
};
enum class SoftmaxMode { SOFTMAX_NORMAL = 0, SOFTMAX_OUTPUT_WITHOUT_BRC = 1 };
struct SoftmaxConfig {
  bool isCheckTiling = true;
  uint32_t oriSrcM = 0, oriSrcK = 0;
  SoftmaxMode mode = SoftmaxMode::SOFTMAX_NORMAL;
};
inline constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG = {};

namespace detail {

// The rows that a call is about: from its shape, the source's shape, or the tiling.
struct Rows {
  uint64_t m, k, n;  // rows, elements of a row in memory, elements that count
};
template <class T>
Rows rows_of(const Op& op, const LocalTensor<T>& src, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape) {
  Rows r{shape.srcM, shape.srcK, shape.oriSrcK ? shape.oriSrcK : shape.srcK};
  if (r.m == 0 || r.k == 0) {
    const ShapeInfo s = src.GetShapeInfo();
    r = {1, 1, 1};
    for (int i = 0; i + 1 < s.shapeDim; ++i) r.m *= s.shape[i];
    if (s.shapeDim) r.k = s.shape[s.shapeDim - 1], r.n = s.originalShape[s.originalShapeDim - 1];
    if (s.shapeDim == 0) r = {tiling.srcM, tiling.srcK, tiling.srcK};
  }
  if (r.m == 0 || r.k == 0)
    op.fail("the shape is not known: softmaxShapeInfo, SetShapeInfo of src, or the tiling says it");
  if (r.k * sizeof(T) % 32 || r.n > r.k)
    op.fail(format("rows of %llu elements, %llu of which count: a row is whole blocks of 32 bytes",
                   static_cast<unsigned long long>(r.k), static_cast<unsigned long long>(r.n)));
  return r;
}

// A block of 32 bytes for each row, filled with one number.
template <class T>
void fill_block(T* blocks, uint64_t row, float x) {
  constexpr uint64_t kPer = 32 / sizeof(T);
  std::fill_n(blocks + row * kPer, kPer, static_cast<T>(x));
}
template <class T>
float block(const T* blocks, uint64_t row) {
  return static_cast<float>(blocks[row * (32 / sizeof(T))]);
}

inline void maybe_scratch(const Op& op, const LocalTensor<uint8_t>* tmp) {
  if (tmp) scratch(op, *tmp);
}

template <class T>
float largest(const T* x, uint64_t n) {
  float m = -INFINITY;
  for (uint64_t i = 0; i < n; ++i) m = std::max(m, static_cast<float>(x[i]));
  return m;
}

template <class T, class S>
void softmax(const LocalTensor<T>& dst, const LocalTensor<S>* sum, const LocalTensor<S>* max, const LocalTensor<T>& src,
             const LocalTensor<uint8_t>* tmp, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape, Site at) {
  static_assert(one_of<T, half, float> && (std::is_same_v<S, T> || std::is_same_v<S, float>),
                "SoftMax takes half, float; sum and max are of the same type, or float");
  const Op op("SoftMax", at);
  const Rows r = rows_of(op, src, tiling, shape);
  maybe_scratch(op, tmp);
  const T* a = op.reads(src, r.m * r.k * sizeof(T));
  T* d = op.writes(dst, r.m * r.k * sizeof(T));
  S* s = sum ? op.writes(*sum, r.m * 32, "sumTensor") : nullptr;
  S* m = max ? op.writes(*max, r.m * 32, "maxTensor") : nullptr;
  std::vector<float> e(r.n);
  for (uint64_t i = 0; i < r.m; ++i) {
    const float top = largest(a + i * r.k, r.n);
    float total = 0;
    for (uint64_t j = 0; j < r.n; ++j) total += e[j] = std::exp(static_cast<float>(a[i * r.k + j]) - top);
    for (uint64_t j = 0; j < r.n; ++j) d[i * r.k + j] = static_cast<T>(e[j] / total);
    if (s) fill_block(s, i, total);
    if (m) fill_block(m, i, top);
  }
}

template <class T, class S>
void simple_softmax(const LocalTensor<T>& dst, const LocalTensor<S>& sum, const LocalTensor<S>& max,
                    const LocalTensor<T>& src, const LocalTensor<uint8_t>* tmp, const SoftMaxTiling& tiling,
                    const SoftMaxShapeInfo& shape, Site at) {
  static_assert(one_of<T, half, float> && (std::is_same_v<S, T> || std::is_same_v<S, float>),
                "SimpleSoftMax takes half, float; sum and max are of the same type, or float");
  const Op op("SimpleSoftMax", at);
  const Rows r = rows_of(op, src, tiling, shape);
  maybe_scratch(op, tmp);
  const T* a = op.reads(src, r.m * r.k * sizeof(T));
  const S *s = op.reads(sum, r.m * 32, "inSumTensor"), *m = op.reads(max, r.m * 32, "inMaxTensor");
  T* d = op.writes(dst, r.m * r.k * sizeof(T));
  for (uint64_t i = 0; i < r.m; ++i)
    for (uint64_t j = 0; j < r.n; ++j)
      d[i * r.k + j] = static_cast<T>(std::exp(static_cast<float>(a[i * r.k + j]) - block(m, i)) / block(s, i));
}

template <bool update, class T, class S>
void softmax_flash(const LocalTensor<T>& dst, const LocalTensor<S>& sum, const LocalTensor<S>& max,
                   const LocalTensor<T>& src, const LocalTensor<T>& exp_max, const LocalTensor<S>& in_sum,
                   const LocalTensor<S>& in_max, const LocalTensor<uint8_t>* tmp, const SoftMaxTiling& tiling,
                   const SoftMaxShapeInfo& shape, Site at) {
  static_assert(one_of<T, half, float> && (std::is_same_v<S, T> || std::is_same_v<S, float>),
                "SoftmaxFlashV2 takes half, float; sums and maxima are of the same type, or float");
  const Op op("SoftmaxFlashV2", at);
  const Rows r = rows_of(op, src, tiling, shape);
  maybe_scratch(op, tmp);
  const T* a = op.reads(src, r.m * r.k * sizeof(T));
  std::vector<float> old_sum(r.m), old_max(r.m, -INFINITY);  // the new ones may be written to where these are
  if constexpr (update) {
    const S *s = op.reads(in_sum, r.m * 32, "inExpSumTensor"), *m = op.reads(in_max, r.m * 32, "inMaxTensor");
    for (uint64_t i = 0; i < r.m; ++i) old_sum[i] = block(s, i), old_max[i] = block(m, i);
  }
  T* d = op.writes(dst, r.m * r.k * sizeof(T));
  S *s = op.writes(sum, r.m * 32, "expSumTensor"), *m = op.writes(max, r.m * 32, "maxTensor");
  T* e = update ? op.writes(exp_max, r.m * 32, "expMaxTensor") : nullptr;
  for (uint64_t i = 0; i < r.m; ++i) {
    const float top = std::max(old_max[i], largest(a + i * r.k, r.n));
    float total = 0;
    for (uint64_t j = 0; j < r.n; ++j) {
      const float x = std::exp(static_cast<float>(a[i * r.k + j]) - top);
      total += x;
      d[i * r.k + j] = static_cast<T>(x);
    }
    const float scale = std::exp(old_max[i] - top);
    fill_block(s, i, update ? scale * old_sum[i] + total : total);
    fill_block(m, i, top);
    if (e) fill_block(e, i, scale);
  }
}

template <bool front, class T>
void softmax_grad(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& grad, const LocalTensor<T>& src,
                  const LocalTensor<uint8_t>* tmp, const SoftMaxTiling& tiling, const SoftMaxShapeInfo& shape,
                  Site at) {
  static_assert(one_of<T, half, float>, "SoftmaxGrad takes half, float");
  const Op op(name, at);
  const Rows r = rows_of(op, src, tiling, shape);
  maybe_scratch(op, tmp);
  const T *g = op.reads(grad, r.m * r.k * sizeof(T), "gradTensor"), *a = op.reads(src, r.m * r.k * sizeof(T));
  T* d = op.writes(dst, front ? r.m * 32 : r.m * r.k * sizeof(T));
  for (uint64_t i = 0; i < r.m; ++i) {
    float total = 0;
    const uint64_t first = i * r.k;
    for (uint64_t j = 0; j < r.n; ++j) total += static_cast<float>(g[first + j]) * static_cast<float>(a[first + j]);
    if constexpr (front)
      fill_block(d, i, total);
    else
      for (uint64_t j = 0; j < r.n; ++j)
        d[first + j] = static_cast<T>((static_cast<float>(g[first + j]) - total) * static_cast<float>(a[first + j]));
  }
}

}  // namespace detail

#define ASCENDC_ND(Name) static_assert(!isDataFormatNZ, #Name ": rows in the format NZ are not supported; ND is")
#define ASCENDC_BROADCAST(Name)                             \
  static_assert(config.mode == SoftmaxMode::SOFTMAX_NORMAL, \
                #Name ": SOFTMAX_OUTPUT_WITHOUT_BRC is not supported; sums and maxima fill a block a row")

// Each form with sharedTmpBuffer and without. S: the type of sums and maxima.
#define ASCENDC_SOFTMAX(tmp_parameter, tmp)                                                                            \
  template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false,               \
            const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class S>                                                \
  void SoftMax(const LocalTensor<T>& dst, const LocalTensor<S>& sumTensor, const LocalTensor<S>& maxTensor,            \
               const LocalTensor<T>& src, tmp_parameter const SoftMaxTiling& tiling,                                   \
               const SoftMaxShapeInfo& softmaxShapeInfo = {}, ASCENDC_AT) {                                            \
    ASCENDC_ND(SoftMax);                                                                                               \
    ASCENDC_BROADCAST(SoftMax);                                                                                        \
    detail::softmax(dst, &sumTensor, &maxTensor, src, tmp, tiling, softmaxShapeInfo, at);                              \
  }                                                                                                                    \
  template <class T, bool isReuseSource = false, bool isBasicBlock = false, bool isDataFormatNZ = false, class S>      \
  void SimpleSoftMax(const LocalTensor<T>& dst, const LocalTensor<S>& inSumTensor, const LocalTensor<S>& inMaxTensor,  \
                     const LocalTensor<T>& src, tmp_parameter const SoftMaxTiling& tiling,                             \
                     const SoftMaxShapeInfo& softmaxShapeInfo = {}, ASCENDC_AT) {                                      \
    ASCENDC_ND(SimpleSoftMax);                                                                                         \
    detail::simple_softmax(dst, inSumTensor, inMaxTensor, src, tmp, tiling, softmaxShapeInfo, at);                     \
  }                                                                                                                    \
  template <class T, bool isUpdate = false, bool isReuseSource = false, bool isBasicBlock = false,                     \
            bool isDataFormatNZ = false, const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG, class S>                   \
  void SoftmaxFlashV2(const LocalTensor<T>& dst, const LocalTensor<S>& expSumTensor, const LocalTensor<S>& maxTensor,  \
                      const LocalTensor<T>& src, const LocalTensor<T>& expMaxTensor,                                   \
                      const LocalTensor<S>& inExpSumTensor, const LocalTensor<S>& inMaxTensor,                         \
                      tmp_parameter const SoftMaxTiling& tiling, const SoftMaxShapeInfo& softmaxShapeInfo = {},        \
                      ASCENDC_AT) {                                                                                    \
    ASCENDC_ND(SoftmaxFlashV2);                                                                                        \
    ASCENDC_BROADCAST(SoftmaxFlashV2);                                                                                 \
    detail::softmax_flash<isUpdate>(dst, expSumTensor, maxTensor, src, expMaxTensor, inExpSumTensor, inMaxTensor, tmp, \
                                    tiling, softmaxShapeInfo, at);                                                     \
  }                                                                                                                    \
  template <class T, bool isReuseSource = false, bool isDataFormatNZ = false>                                          \
  void SoftmaxGrad(const LocalTensor<T>& dst, const LocalTensor<T>& gradTensor, const LocalTensor<T>& src,             \
                   tmp_parameter const SoftMaxTiling& tiling, bool isFront = false,                                    \
                   const SoftMaxShapeInfo& softmaxShapeInfo = {}, ASCENDC_AT) {                                        \
    ASCENDC_ND(SoftmaxGrad);                                                                                           \
    if (isFront)                                                                                                       \
      detail::softmax_grad<true>("SoftmaxGrad", dst, gradTensor, src, tmp, tiling, softmaxShapeInfo, at);              \
    else                                                                                                               \
      detail::softmax_grad<false>("SoftmaxGrad", dst, gradTensor, src, tmp, tiling, softmaxShapeInfo, at);             \
  }                                                                                                                    \
  template <class T, bool isBasicBlock = false, bool isDataFormatNZ = false>                                           \
  void SoftmaxGradFront(const LocalTensor<T>& dst, const LocalTensor<T>& gradTensor, const LocalTensor<T>& src,        \
                        tmp_parameter const SoftMaxTiling& tiling, const SoftMaxShapeInfo& softmaxShapeInfo = {},      \
                        ASCENDC_AT) {                                                                                  \
    ASCENDC_ND(SoftmaxGradFront);                                                                                      \
    detail::softmax_grad<true>("SoftmaxGradFront", dst, gradTensor, src, tmp, tiling, softmaxShapeInfo, at);           \
  }
#define ASCENDC_NOTHING
#define ASCENDC_TMP const LocalTensor<uint8_t>&sharedTmpBuffer,
ASCENDC_SOFTMAX(ASCENDC_NOTHING, nullptr)
ASCENDC_SOFTMAX(ASCENDC_TMP, &sharedTmpBuffer)
#undef ASCENDC_SOFTMAX
#undef ASCENDC_NOTHING
#undef ASCENDC_TMP
#undef ASCENDC_BROADCAST

// The form that gives neither sums nor maxima.
template <class T, bool isReuseSource = false, bool isBasicBlock = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>
void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
             const SoftMaxTiling& tiling, const SoftMaxShapeInfo& softmaxShapeInfo = {}, ASCENDC_AT) {
  detail::softmax<T, T>(dst, nullptr, nullptr, src, &sharedTmpBuffer, tiling, softmaxShapeInfo, at);
}
template <class T, bool isReuseSource = false, bool isBasicBlock = false,
          const SoftmaxConfig& config = SOFTMAX_DEFAULT_CFG>
void SoftMax(const LocalTensor<T>& dst, const LocalTensor<T>& src, const SoftMaxTiling& tiling,
             const SoftMaxShapeInfo& softmaxShapeInfo = {}, ASCENDC_AT) {
  detail::softmax<T, T>(dst, nullptr, nullptr, src, nullptr, tiling, softmaxShapeInfo, at);
}

// Rows whose maximum has the bits `from` become `to`. Was there one?
template <class T, class U, bool isDataFormatNZ = false, uint8_t stepSizeMode = 0>
bool AdjustSoftMaxRes(const LocalTensor<T>& softMaxRes, const LocalTensor<U>& maxTensor, const uint32_t from,
                      const detail::Plain<T> to, const SoftMaxShapeInfo& softmaxShapeInfo, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float> && detail::one_of<U, half, float>, "AdjustSoftMaxRes takes half, float");
  static_assert(stepSizeMode == 0, "AdjustSoftMaxRes: maxTensor has a block a row (stepSizeMode 0)");
  ASCENDC_ND(AdjustSoftMaxRes);
  const detail::Op op("AdjustSoftMaxRes", at);
  const detail::Rows r = detail::rows_of(op, softMaxRes, SoftMaxTiling(), softmaxShapeInfo);
  const U* m = op.reads(maxTensor, r.m * 32, "maxTensor");
  T* d = op.writes(softMaxRes, r.m * r.k * sizeof(T), "softMaxRes");
  bool any = false;
  for (uint64_t i = 0; i < r.m; ++i) {
    if (std::bit_cast<detail::bits_of<U>>(m[i * (32 / sizeof(U))]) != static_cast<detail::bits_of<U>>(from)) continue;
    std::fill_n(d + i * r.k, r.k, to);
    any = true;
  }
  return any;
}
#undef ASCENDC_ND

}  // namespace AscendC
