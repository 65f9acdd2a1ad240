// Sum, Mean, ReduceSum/Max/Min/Mean/Prod/Any/All of a matrix along an axis, Broadcast, TopK, InitGlobalMemory. Called by kernels.
// What it is not: the instructions that reduce a repeat or a count of elements (reduce.h). Sums are taken in float, in order.
#pragma once

#include <numeric>
#include <vector>

#include "ascendc/arithmetic.h"
#include "ascendc/copy.h"
#include "ascendc/each.h"

namespace AscendC {

struct SumParams {
  uint32_t outter = 1, inner = 0, n = 0;
};
struct MeanParams {
  uint32_t outter = 1, inner = 0, n = 0;
};

namespace Pattern::Reduce {
struct AR {};
struct RA {};
}  // namespace Pattern::Reduce

namespace detail {

template <class T>
void need_rows(const Op& op, uint64_t inner, uint64_t n) {
  if (inner * sizeof(T) % 32 || n > inner)
    op.fail(format("inner is %llu and n %llu: a row is whole blocks of 32 bytes, and n of its elements count",
                   static_cast<unsigned long long>(inner), static_cast<unsigned long long>(n)));
}

// One result a row of [outer, inner], of which the first n count.
template <class T, class F>
void along_rows(const Op& op, const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>* tmp,
                uint64_t outer, uint64_t inner, uint64_t n, F f) {
  need_rows<T>(op, inner, n);
  if (tmp) scratch(op, *tmp);
  const T* a = op.reads(src, outer * inner * sizeof(T));
  T* d = op.writes(dst, outer * sizeof(T));
  for (uint64_t i = 0; i < outer; ++i) d[i] = static_cast<T>(f(a + i * inner, 1, n));
}

// srcShape of two axes; inner pad: the last axis fills whole blocks in memory.
template <class T, class Along, class F>
void along_axis(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>* tmp,
                const uint32_t shape[], bool inner_pad, F f, Site at) {
  static_assert(one_of<Along, Pattern::Reduce::AR, Pattern::Reduce::RA>,
                "reductions along an axis take Pattern::Reduce::AR and Pattern::Reduce::RA");
  const Op op(name, at);
  const uint64_t first = shape[0], last = shape[1];
  constexpr uint64_t kPer = 32 / sizeof(T);
  if (!inner_pad && last % kPer)
    op.fail(format("srcInnerPad is false and the last axis has %llu elements, which fill no whole blocks of 32 bytes",
                   static_cast<unsigned long long>(last)));
  const uint64_t inner = (last + kPer - 1) / kPer * kPer;
  if (std::is_same_v<Along, Pattern::Reduce::AR>) return along_rows(op, dst, src, tmp, first, inner, last, f);
  if (tmp) scratch(op, *tmp);
  const T* a = op.reads(src, first * inner * sizeof(T));
  T* d = op.writes(dst, last * sizeof(T));
  for (uint64_t j = 0; j < last; ++j) d[j] = static_cast<T>(f(a + j, inner, first));
}

// f(elements, step, n) of the reductions.
template <class T>
float sum_of(const T* a, uint64_t step, uint64_t n) {
  float s = 0;
  for (uint64_t i = 0; i < n; ++i) s += static_cast<float>(a[i * step]);
  return s;
}
template <class T>
float mean_of(const T* a, uint64_t step, uint64_t n) {
  return sum_of(a, step, n) / static_cast<float>(n);
}
template <class T>
float product_of(const T* a, uint64_t step, uint64_t n) {
  float p = 1;
  for (uint64_t i = 0; i < n; ++i) p *= static_cast<float>(a[i * step]);
  return p;
}
template <class T>
T largest_of(const T* a, uint64_t step, uint64_t n) {
  T m = a[0];
  for (uint64_t i = 1; i < n; ++i) m = beats<true>(a[i * step], m) ? a[i * step] : m;
  return m;
}
template <class T>
T smallest_of(const T* a, uint64_t step, uint64_t n) {
  T m = a[0];
  for (uint64_t i = 1; i < n; ++i) m = beats<false>(a[i * step], m) ? a[i * step] : m;
  return m;
}
template <class T>
T any_of(const T* a, uint64_t step, uint64_t n) {
  bool any = false;
  for (uint64_t i = 0; i < n; ++i) any |= a[i * step] != T(0);
  return any ? T(1) : T(0);
}
template <class T>
T all_of(const T* a, uint64_t step, uint64_t n) {
  bool all = true;
  for (uint64_t i = 0; i < n; ++i) all &= a[i * step] != T(0);
  return all ? T(1) : T(0);
}

}  // namespace detail

#define ASCENDC_ROWS(Name, Params, f, head)                                                                      \
  template <head bool isReuseSource = false, bool isBasicBlock = false>                                          \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,   \
            const Params& p, ASCENDC_AT) {                                                                       \
    static_assert(detail::one_of<T, half, float>, #Name " takes half, float");                                   \
    detail::along_rows(detail::Op(#Name, at), dst, src, &sharedTmpBuffer, p.outter, p.inner, p.n, detail::f<T>); \
  }                                                                                                              \
  template <head bool isReuseSource = false, bool isBasicBlock = false>                                          \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const Params& p, ASCENDC_AT) {                 \
    static_assert(detail::one_of<T, half, float>, #Name " takes half, float");                                   \
    detail::along_rows(detail::Op(#Name, at), dst, src, nullptr, p.outter, p.inner, p.n, detail::f<T>);          \
  }
#define ASCENDC_SUM_HEAD class T, int32_t reduceDim = -1,
#define ASCENDC_MEAN_HEAD class T, class accType = T,
ASCENDC_ROWS(Sum, SumParams, sum_of, ASCENDC_SUM_HEAD)
ASCENDC_ROWS(Mean, MeanParams, mean_of, ASCENDC_MEAN_HEAD)
#undef ASCENDC_ROWS
#undef ASCENDC_SUM_HEAD
#undef ASCENDC_MEAN_HEAD

#define ASCENDC_ALONG(Name, f, ...)                                                                             \
  template <class T, class pattern, bool isReuseSource = false>                                                 \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,  \
            const uint32_t srcShape[], bool srcInnerPad, ASCENDC_AT) {                                          \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " along an axis takes " #__VA_ARGS__);                  \
    detail::along_axis<T, pattern>(#Name, dst, src, &sharedTmpBuffer, srcShape, srcInnerPad, detail::f<T>, at); \
  }                                                                                                             \
  template <class T, class pattern, bool isReuseSource = false>                                                 \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t srcShape[], bool srcInnerPad,  \
            ASCENDC_AT) {                                                                                       \
    static_assert(detail::one_of<T, __VA_ARGS__>, #Name " along an axis takes " #__VA_ARGS__);                  \
    detail::along_axis<T, pattern>(#Name, dst, src, nullptr, srcShape, srcInnerPad, detail::f<T>, at);          \
  }
ASCENDC_ALONG(ReduceSum, sum_of, float)
ASCENDC_ALONG(ReduceMean, mean_of, float)
ASCENDC_ALONG(ReduceProd, product_of, float)
ASCENDC_ALONG(ReduceMax, largest_of, half, float)
ASCENDC_ALONG(ReduceMin, smallest_of, half, float)
ASCENDC_ALONG(ReduceAny, any_of, uint8_t, float)
ASCENDC_ALONG(ReduceAll, all_of, uint8_t, float)
#undef ASCENDC_ALONG

namespace detail {
// Axes of length 1 in src are repeated.
template <class T, int32_t dim, int32_t axis>
void broadcast(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dst_shape[dim],
               const uint32_t src_shape[dim], const LocalTensor<uint8_t>* tmp, Site at) {
  static_assert(dim == 1 || dim == 2, "Broadcast takes shapes of one or two axes");
  static_assert(axis >= 0 && axis < dim, "Broadcast: the axis is one of the shape's");
  static_assert(one_of<T, half, bfloat16_t, float, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t>,
                "Broadcast takes numbers of 8, 16 and 32 bits");
  const Op op("Broadcast", at);
  if (tmp) scratch(op, *tmp);
  for (int32_t i = 0; i < dim; ++i)
    if (i == axis ? src_shape[i] != 1 : src_shape[i] != dst_shape[i])
      op.fail(format("axis %d is %u in src and %u in dst: axis %d of src is 1 and the others are equal", i,
                     src_shape[i], dst_shape[i], axis));
  const uint64_t rows = dim == 2 ? dst_shape[0] : 1, columns = dst_shape[dim - 1];
  const T* a = op.reads(src, (axis == dim - 1 ? rows : columns) * sizeof(T));
  T* d = op.writes(dst, rows * columns * sizeof(T));
  for (uint64_t i = 0; i < rows; ++i)
    for (uint64_t j = 0; j < columns; ++j) d[i * columns + j] = a[axis == dim - 1 ? i : j];
}
}  // namespace detail
#define ASCENDC_BROADCAST(Name)                                                                      \
  template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>                          \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],      \
            const uint32_t srcShape[dim], const LocalTensor<uint8_t>& sharedTmpBuffer, ASCENDC_AT) { \
    detail::broadcast<T, dim, axis>(dst, src, dstShape, srcShape, &sharedTmpBuffer, at);             \
  }                                                                                                  \
  template <class T, int32_t dim, int32_t axis, bool isReuseSource = false>                          \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint32_t dstShape[dim],      \
            const uint32_t srcShape[dim], ASCENDC_AT) {                                              \
    detail::broadcast<T, dim, axis>(dst, src, dstShape, srcShape, nullptr, at);                      \
  }
ASCENDC_BROADCAST(Broadcast)
ASCENDC_BROADCAST(BroadCast)
#undef ASCENDC_BROADCAST

enum class TopKMode { TOPK_NORMAL, TOPK_NSMALL };
struct TopKInfo {
  int32_t outter = 1, inner = 0, n = 0;
};
// Of the host's TopKTilingFunc; not read here.
struct TopkTiling {
  int32_t tmpLocalSize = 0, allDataSize = 0, innerDataSize = 0, sortRepeat = 0, mrgSortRepeat = 0, kAlignFourBytes = 0,
          kAlignTwoBytes = 0, maskOffset = 0, maskVreducev2FourBytes = 0, maskVreducev2TwoBytes = 0,
          mrgSortSrc1offset = 0, mrgSortSrc2offset = 0, mrgSortSrc3offset = 0, mrgSortTwoQueueSrc1Offset = 0,
          mrgFourQueueTailPara1 = 0, mrgFourQueueTailPara2 = 0, srcIndexOffset = 0, copyUbToUbBlockCount = 0,
          topkMrgSrc1MaskSizeOffset = 0, topkNSmallSrcIndexOffset = 0, vreduceValMask0 = 0, vreduceValMask1 = 0,
          vreduceIdxMask0 = 0, vreduceIdxMask1 = 0, vreducehalfValMask0 = 0, vreducehalfValMask1 = 0;
};

namespace detail {
// Equal elements keep their order. Rows of dst begin at whole blocks; beyond k they stay as they are.
template <bool given, bool finishes, class T>
void top_k(const LocalTensor<T>& value, const LocalTensor<int32_t>& index, const LocalTensor<T>& src,
           const LocalTensor<int32_t>& src_index, const LocalTensor<bool>& finish, const LocalTensor<uint8_t>* tmp,
           int32_t k, const TopKInfo& info, bool largest, bool small, Site at) {
  static_assert(one_of<T, half, float>, "TopK takes half, float");
  const Op op("TopK", at);
  if (info.inner % 32 || info.n < 1 || info.n > info.inner || info.outter < 0)
    op.fail(format("inner is %d and n %d: inner is a multiple of 32, and n of its elements count", info.inner, info.n));
  if (small && info.inner != 32) op.fail(format("inner is %d: TOPK_NSMALL is for rows of 32", info.inner));
  if (k < 1 || k > info.n) op.fail(format("k is %d: 1 to n, which is %d", k, info.n));
  if (tmp) scratch(op, *tmp);
  const uint64_t rows = static_cast<uint64_t>(info.outter), inner = static_cast<uint64_t>(info.inner);
  constexpr uint64_t kPer = 32 / sizeof(T);
  const uint64_t value_step = (static_cast<uint64_t>(k) + kPer - 1) / kPer * kPer,
                 index_step = (static_cast<uint64_t>(k) + 7) / 8 * 8;
  const T* a = op.reads(src, rows * inner * sizeof(T), "srcLocal");
  const int32_t* names = nullptr;
  if constexpr (given) names = op.reads(src_index, (small ? rows : 1) * inner * 4, "srcIndexLocal");
  const bool* done = nullptr;
  if constexpr (finishes) done = op.reads(finish, rows, "finishLocal");
  T* v = op.writes(value, rows * value_step * sizeof(T), "dstValueLocal");
  int32_t* x = op.writes(index, rows * index_step * 4, "dstIndexLocal");
  std::vector<int32_t> order(static_cast<size_t>(info.n));
  for (uint64_t r = 0; r < rows; ++r) {
    const T* row = a + r * inner;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t p, int32_t q) {
      return largest ? beats<true>(row[p], row[q]) : beats<true>(row[q], row[p]);
    });
    for (int32_t i = 0; i < k; ++i) {
      const int32_t at_row = order[static_cast<size_t>(i)];
      v[r * value_step + i] = row[at_row];
      x[r * index_step + i] = done && done[r] ? info.n : names ? names[(small ? r * inner : 0) + at_row] : at_row;
    }
  }
}
}  // namespace detail

template <class T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          TopKMode topkMode = TopKMode::TOPK_NORMAL>
void TopK(const LocalTensor<T>& dstValueLocal, const LocalTensor<int32_t>& dstIndexLocal,
          const LocalTensor<T>& srcLocal, const LocalTensor<int32_t>& srcIndexLocal,
          const LocalTensor<bool>& finishLocal, const LocalTensor<uint8_t>& tmpLocal, const int32_t k,
          const TopkTiling&, const TopKInfo& topKInfo, const bool isLargest = true, ASCENDC_AT) {
  detail::top_k<isInitIndex, isHasfinish>(dstValueLocal, dstIndexLocal, srcLocal, srcIndexLocal, finishLocal, &tmpLocal,
                                          k, topKInfo, isLargest, topkMode == TopKMode::TOPK_NSMALL, at);
}
template <class T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          TopKMode topkMode = TopKMode::TOPK_NORMAL>
void TopK(const LocalTensor<T>& dstValueLocal, const LocalTensor<int32_t>& dstIndexLocal,
          const LocalTensor<T>& srcLocal, const LocalTensor<int32_t>& srcIndexLocal,
          const LocalTensor<bool>& finishLocal, const int32_t k, const TopkTiling&, const TopKInfo& topKInfo,
          const bool isLargest = true, ASCENDC_AT) {
  detail::top_k<isInitIndex, isHasfinish>(dstValueLocal, dstIndexLocal, srcLocal, srcIndexLocal, finishLocal, nullptr,
                                          k, topKInfo, isLargest, topkMode == TopKMode::TOPK_NSMALL, at);
}

namespace detail {
// Duplicate and copies out, with all waits between them and around them.
template <class T>
void fill_global(T* to, uint64_t size, T value, const char* what, Site at) {
  Core& c = core(at, what);
  if (!c.hazards.on()) {
    std::fill_n(to, size, value);
    return;
  }
  const std::vector<T> values(size, value);
  c.hazards.meet();
  c.hazards.issue(kCopyOut, what, at);
  {
    const GlobalUse use(c, kCopyOut, SOFTNPU_ASCENDC_WRITES, {to, size * sizeof(T), 1, 0, values.data(), 0}, what, at);
    std::copy(values.begin(), values.end(), to);
  }
  c.hazards.meet();
}
}  // namespace detail

// Global memory becomes one number: `size` elements of it.
#define ASCENDC_GLOBAL_FILL(Name)                                                                              \
  template <class T>                                                                                           \
  void Name(GlobalTensor<T>& gmWorkspaceAddr, const uint64_t size, const detail::Plain<T> value, ASCENDC_AT) { \
    static_assert(detail::one_of<T, half, float, int16_t, uint16_t, int32_t, uint32_t>,                        \
                  #Name " takes half, float, int16_t, uint16_t, int32_t, uint32_t");                           \
    detail::check_global(gmWorkspaceAddr.GetPhyAddr(), size * sizeof(T), #Name, at);                           \
    detail::fill_global(gmWorkspaceAddr.GetPhyAddr(0), size, value, #Name, at);                                \
  }
ASCENDC_GLOBAL_FILL(Fill)
ASCENDC_GLOBAL_FILL(InitGlobalMemory)
ASCENDC_GLOBAL_FILL(InitOutput)
#undef ASCENDC_GLOBAL_FILL

}  // namespace AscendC
