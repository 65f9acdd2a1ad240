// Reductions: of each block, of each repeat, of a whole tensor. Sums are taken in a binary tree within a repeat, each step rounded to the
// type; ReduceSum by count adds the repeats' sums in order. Of equal extremes the first counts. Called by kernels.
#pragma once

#include "ascendc/arithmetic.h"
#include "ascendc/lanes.h"

namespace AscendC {
namespace detail {

// The active elements of one repeat (or of a block of it), with their places.
template <class T>
struct Gathered {
  T value[128];
  bool active[128];
  int n;
};

template <class T>
Gathered<T> gather_lanes(const Lanes& l, const Operand<const T>& x, int r, int first, int n) {
  Gathered<T> g;
  g.n = n;
  const int end = r + 1 < l.repeats ? l.each : l.last;
  for (int i = 0; i < n; ++i) {
    const int e = first + i;
    g.active[i] = e < end && (l.prefix >= 0 ? e < l.prefix : (l.bits[e / 64] >> (e % 64) & 1) != 0);
    g.value[i] = g.active[i] ? *x.at(r, e) : T(0);
  }
  return g;
}

template <class T>
T tree_sum(const Gathered<T>& g) {
  T v[128];
  std::copy_n(g.value, g.n, v);
  for (int n = g.n; n > 1; n /= 2)
    for (int i = 0; i < n / 2; ++i) v[i] = add(v[2 * i], v[2 * i + 1]);
  return v[0];
}

// The place of the largest (or smallest) active element, of the first NaN if there is one; -1: none.
template <bool largest, class T>
int extreme(const Gathered<T>& g) {
  int best = -1;
  for (int i = 0; i < g.n; ++i)
    if (g.active[i] && (best < 0 || beats<largest>(g.value[i], g.value[best]))) best = i;
  return best;
}
template <bool largest, class T>
T extreme_value(const Gathered<T>& g) {
  const int i = extreme<largest>(g);
  return i < 0 ? T(largest ? -INFINITY : INFINITY) : g.value[i];
}

enum class Reduction { kSum, kMax, kMin };
template <Reduction what, class T>
T reduced(const Gathered<T>& g) {
  if constexpr (what == Reduction::kSum) return tree_sum(g);
  return extreme_value<what == Reduction::kMax>(g);
}

// `groups` results of a repeat, each of `size` neighbouring lanes; the results of the next repeat begin `stride` elements on.
template <Reduction what, bool set, class T, class Mask>
void reduce_groups(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask mask, int32_t repeats,
                   int groups, int64_t stride, int32_t blk, int32_t rep, uint32_t alignment, Site at) {
  static_assert(one_of<T, half, float>, "reductions take half, float");
  const Op op(name, at);
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(T));
  const auto x = source(op, l, src, static_cast<uint32_t>(blk), static_cast<uint32_t>(rep));
  const int size = l.each / groups;
  if (stride < 0) op.fail("the stride of dst is negative");
  T* d = op.writes(
      dst, l.repeats ? (static_cast<uint64_t>(l.repeats - 1) * stride + groups) * sizeof(T) : 0, "dst", alignment,
      Strided{static_cast<uint64_t>(l.repeats), groups * sizeof(T), static_cast<uint64_t>(stride) * sizeof(T)});
  for (int r = 0; r < l.repeats; ++r) {
    T result[64];  // dst may be src
    bool any[64];
    for (int g = 0; g < groups; ++g) {
      const auto lanes = gather_lanes(l, x, r, g * size, size);
      any[g] = std::any_of(lanes.active, lanes.active + size, [](bool b) { return b; });
      result[g] = any[g] ? reduced<what>(lanes) : T(0);
    }
    // Groups without an active lane leave dst as it was.
    for (int g = 0; g < groups; ++g)
      if (any[g]) d[static_cast<size_t>(r) * stride + g] = result[g];
  }
}

template <bool largest, bool set, class T, class Mask>
void whole_extreme(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, Mask mask, int32_t repeats,
                   int32_t stride, int32_t blk, int32_t rep, ReduceOrder order, Site at) {
  static_assert(one_of<T, half, float>, "reductions take half, float");
  const Op op(name, at);
  const Lanes l = lanes_of<set>(op, mask, repeats, 256 / sizeof(T));
  const auto x = source(op, l, src, static_cast<uint32_t>(blk), static_cast<uint32_t>(rep));
  const bool both = order == ReduceOrder::ORDER_VALUE_INDEX || order == ReduceOrder::ORDER_INDEX_VALUE;
  const uint32_t unit = both ? 2 * sizeof(T) : order == ReduceOrder::ORDER_ONLY_VALUE ? sizeof(T) : 4;
  if (stride < 0) op.fail("the stride of dst is negative");
  const uint64_t step = static_cast<uint64_t>(stride) * unit;
  auto* d = reinterpret_cast<uint8_t*>(op.writes(dst, l.repeats ? (l.repeats - 1) * step + unit : 0, "dst", unit,
                                                 Strided{static_cast<uint64_t>(l.repeats), unit, step}));
  for (int r = 0; r < l.repeats; ++r) {
    const auto lanes = gather_lanes(l, x, r, 0, l.each);
    const int i = extreme<largest>(lanes);
    const T value = i < 0 ? T(0) : lanes.value[i];
    const auto index = static_cast<bits_of<T>>(i);
    const uint32_t wide_index = static_cast<uint32_t>(i);
    uint8_t* to = d + r * step;
    if (order == ReduceOrder::ORDER_ONLY_INDEX) {
      memcpy(to, &wide_index, 4);
      continue;
    }
    const bool index_first = order == ReduceOrder::ORDER_INDEX_VALUE;
    memcpy(to + (index_first ? sizeof(T) : 0), &value, sizeof(T));
    if (both) memcpy(to + (index_first ? 0 : sizeof(T)), &index, sizeof(T));
  }
}

template <Reduction what, class T>
void reduce_all(const char* name, const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& work,
                const Lanes& l, int32_t rep, bool in_order, bool with_index, const Op& op) {
  static_assert(one_of<T, half, float>, "reductions take half, float");
  if (l.repeats == 0) op.fail("there is nothing to reduce");
  const auto x = source(op, l, src, 1, static_cast<uint32_t>(rep));
  op.writes(work, 1, "sharedTmpBuffer");
  std::vector<T> sums;
  T best = T(0);
  uint64_t where = 0;
  [[maybe_unused]] bool none = true;
  for (int r = 0; r < l.repeats; ++r) {
    const auto lanes = gather_lanes(l, x, r, 0, l.each);
    if constexpr (what == Reduction::kSum) {
      sums.push_back(tree_sum(lanes));
    } else {
      const int i = extreme<what == Reduction::kMax>(lanes);
      if (i >= 0 && (none || beats<what == Reduction::kMax>(lanes.value[i], best)))
        best = lanes.value[i], where = static_cast<uint64_t>(r) * l.each + i, none = false;
    }
  }
  T* d = op.writes(dst, (with_index ? 2 : 1) * sizeof(T), "dst", sizeof(T));
  if constexpr (what == Reduction::kSum) {
    if (in_order) {
      for (size_t r = 1; r < sums.size(); ++r) sums[0] = add(sums[0], sums[r]);
    } else {
      for (; sums.size() > 1; sums.resize((sums.size() + 1) / 2))
        for (size_t i = 0; i < (sums.size() + 1) / 2; ++i)
          sums[i] = 2 * i + 1 < sums.size() ? add(sums[2 * i], sums[2 * i + 1]) : sums[2 * i];
    }
    best = sums[0];
  }
  d[0] = best;
  if (with_index) {
    const auto index = static_cast<bits_of<T>>(where);
    memcpy(static_cast<void*>(d + 1), &index, sizeof(T));
  }
  (void)name;
}

}  // namespace detail

#define ASCENDC_REDUCE(What, kind)                                                                                   \
  /* The whole tensor: the first `count` elements. */                                                                \
  template <class T, bool isSetMask = true>                                                                          \
  void Reduce##What(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,     \
                    int32_t count, bool calIndex = false, ASCENDC_AT) {                                              \
    const detail::Op op("Reduce" #What, at);                                                                         \
    op.need_count(count);                                                                                            \
    const auto n = static_cast<uint64_t>(detail::counted<isSetMask>(count, at, "Reduce" #What));                     \
    detail::reduce_all<detail::Reduction::kind>("Reduce" #What, dst, src, sharedTmpBuffer,                           \
                                                detail::lanes_of_count(n, 256 / sizeof(T)), 8, true, calIndex, op);  \
  }                                                                                                                  \
  template <class T, bool isSetMask = true>                                                                          \
  void Reduce##What(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,     \
                    uint64_t mask, int32_t repeatTime, int32_t srcRepStride, bool calIndex = false, ASCENDC_AT) {    \
    const detail::Op op("Reduce" #What, at);                                                                         \
    detail::reduce_all<detail::Reduction::kind>("Reduce" #What, dst, src, sharedTmpBuffer,                           \
                                                detail::lanes_of<isSetMask>(op, mask, repeatTime, 256 / sizeof(T)),  \
                                                srcRepStride, false, calIndex, op);                                  \
  }                                                                                                                  \
  template <class T, bool isSetMask = true>                                                                          \
  void Reduce##What(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<T>& sharedTmpBuffer,     \
                    const uint64_t mask[], int32_t repeatTime, int32_t srcRepStride, bool calIndex = false,          \
                    ASCENDC_AT) {                                                                                    \
    const detail::Op op("Reduce" #What, at);                                                                         \
    detail::reduce_all<detail::Reduction::kind>("Reduce" #What, dst, src, sharedTmpBuffer,                           \
                                                detail::lanes_of<isSetMask>(op, mask, repeatTime, 256 / sizeof(T)),  \
                                                srcRepStride, false, calIndex, op);                                  \
  }                                                                                                                  \
  /* Each block of 32 bytes: 8 results a repeat, which is also the unit of dstRepStride. */                          \
  template <class T, bool isSetMask = true>                                                                          \
  void BlockReduce##What(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t repeatTime, int32_t mask,     \
                         int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, ASCENDC_AT) {             \
    detail::reduce_groups<detail::Reduction::kind, isSetMask>(                                                       \
        "BlockReduce" #What, dst, src, static_cast<uint64_t>(mask), repeatTime, 8, int64_t{dstRepStride} * 8,        \
        srcBlkStride, srcRepStride, 16, at);                                                                         \
  }                                                                                                                  \
  template <class T, bool isSetMask = true>                                                                          \
  void BlockReduce##What(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t repeatTime,                   \
                         const uint64_t mask[], int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride,    \
                         ASCENDC_AT) {                                                                               \
    detail::reduce_groups<detail::Reduction::kind, isSetMask>("BlockReduce" #What, dst, src, mask, repeatTime, 8,    \
                                                              int64_t{dstRepStride} * 8, srcBlkStride, srcRepStride, \
                                                              16, at);                                               \
  }

ASCENDC_REDUCE(Sum, kSum)
ASCENDC_REDUCE(Max, kMax)
ASCENDC_REDUCE(Min, kMin)
#undef ASCENDC_REDUCE

// Each repeat: one sum, at every dstRepStride-th element.
template <class T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t mask, int32_t repeatTime,
                    int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, ASCENDC_AT) {
  detail::reduce_groups<detail::Reduction::kSum, isSetMask>("WholeReduceSum", dst, src, static_cast<uint64_t>(mask),
                                                            repeatTime, 1, dstRepStride, srcBlkStride, srcRepStride,
                                                            sizeof(T), at);
}
template <class T, bool isSetMask = true>
void WholeReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[], int32_t repeatTime,
                    int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, ASCENDC_AT) {
  detail::reduce_groups<detail::Reduction::kSum, isSetMask>("WholeReduceSum", dst, src, mask, repeatTime, 1,
                                                            dstRepStride, srcBlkStride, srcRepStride, sizeof(T), at);
}
template <class T, bool isSetMask = true>
void RepeatReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t repeatTime, int32_t mask, int32_t,
                     int32_t srcBlkStride, int32_t dstRepStride, int32_t srcRepStride, ASCENDC_AT) {
  detail::reduce_groups<detail::Reduction::kSum, isSetMask>("RepeatReduceSum", dst, src, static_cast<uint64_t>(mask),
                                                            repeatTime, 1, dstRepStride, srcBlkStride, srcRepStride,
                                                            sizeof(T), at);
}
// Each pair of neighbours: half as many results, which is also the unit of dstRepStride.
template <class T, bool isSetMask = true>
void PairReduceSum(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t repeatTime, int32_t mask,
                   int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride, ASCENDC_AT) {
  detail::reduce_groups<detail::Reduction::kSum, isSetMask>(
      "PairReduceSum", dst, src, static_cast<uint64_t>(mask), repeatTime, 128 / sizeof(T),
      int64_t{dstRepStride} * (128 / sizeof(T)), srcBlkStride, srcRepStride, 32, at);
}

#define ASCENDC_WHOLE(What, largest)                                                                                  \
  template <class T, bool isSetMask = true>                                                                           \
  void WholeReduce##What(const LocalTensor<T>& dst, const LocalTensor<T>& src, int32_t mask, int32_t repeatTime,      \
                         int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride,                            \
                         ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, ASCENDC_AT) {                            \
    detail::whole_extreme<largest, isSetMask>("WholeReduce" #What, dst, src, static_cast<uint64_t>(mask), repeatTime, \
                                              dstRepStride, srcBlkStride, srcRepStride, order, at);                   \
  }                                                                                                                   \
  template <class T, bool isSetMask = true>                                                                           \
  void WholeReduce##What(const LocalTensor<T>& dst, const LocalTensor<T>& src, const uint64_t mask[],                 \
                         int32_t repeatTime, int32_t dstRepStride, int32_t srcBlkStride, int32_t srcRepStride,        \
                         ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX, ASCENDC_AT) {                            \
    detail::whole_extreme<largest, isSetMask>("WholeReduce" #What, dst, src, mask, repeatTime, dstRepStride,          \
                                              srcBlkStride, srcRepStride, order, at);                                 \
  }
ASCENDC_WHOLE(Max, true)
ASCENDC_WHOLE(Min, false)
#undef ASCENDC_WHOLE

}  // namespace AscendC
