// Sort32, MrgSort, Sort, Concat, Extract: descending by score. A sorted element has 8 bytes: the score (float; or half and two bytes that
// mean nothing) and its index. Elements of one score keep their order. Called by kernels.
#pragma once

#include "ascendc/arithmetic.h"
#include "ascendc/lanes.h"

namespace AscendC {

template <class T>
struct MrgSortSrcList {
  LocalTensor<T> src1, src2, src3, src4;
  MrgSortSrcList() = default;
  MrgSortSrcList(const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<T>& c, const LocalTensor<T>& d)
      : src1(a), src2(b), src3(c), src4(d) {}
};

struct MrgSort4Info {
  uint16_t elementLengths[4] = {};
  bool ifExhaustedSuspension = false;
  uint16_t validBit = 0, repeatTimes = 1;
  MrgSort4Info() = default;
  MrgSort4Info(const uint16_t lengths[4], bool suspend, uint16_t valid, uint16_t repeats)
      : ifExhaustedSuspension(suspend), validBit(valid), repeatTimes(repeats) {
    std::copy_n(lengths, 4, elementLengths);
  }
};

namespace detail {

template <class T>
struct Scored {
  T score;
  T unused[4 / sizeof(T) - 1 + (sizeof(T) == 4)];
  uint32_t index;
};
template <>
struct Scored<float> {
  float score;
  uint32_t index;
};
static_assert(sizeof(Scored<half>) == 8 && sizeof(Scored<float>) == 8);

#define ASCENDC_SORTABLE(Name) static_assert(detail::one_of<T, half, float>, #Name " takes half, float")

// Merges until all queues, or with `suspend` one queue, are used up. Returns how many were taken of each in `taken`.
template <class T>
uint32_t merge(const Scored<T>* const from[4], const uint16_t length[4], bool suspend, Scored<T>* to,
               uint16_t taken[4]) {
  uint32_t n = 0;
  std::fill_n(taken, 4, uint16_t{0});
  for (;;) {
    int best = -1;
    for (int q = 0; q < 4; ++q) {
      if (length[q] == 0) continue;
      if (taken[q] == length[q]) {
        if (suspend) return n;
        continue;
      }
      if (best < 0 || beats<true>(from[q][taken[q]].score, from[best][taken[best]].score)) best = q;
    }
    if (best < 0) return n;
    to[n++] = from[best][taken[best]++];
  }
}

}  // namespace detail

// Each repeat sorts 32 elements.
template <class T>
void Sort32(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<uint32_t>& src1,
            int32_t repeatTime, ASCENDC_AT) {
  ASCENDC_SORTABLE(Sort32);
  const detail::Op op("Sort32", at);
  op.need_repeats(repeatTime);
  const size_t n = static_cast<size_t>(repeatTime) * 32;
  const T* score = op.reads(src0, n * sizeof(T), "src0");
  const uint32_t* index = op.reads(src1, n * 4, "src1");
  std::vector<detail::Scored<T>> all(n);
  for (size_t i = 0; i < n; ++i) all[i].score = score[i], all[i].index = index[i];
  for (size_t i = 0; i < n; i += 32)
    std::stable_sort(all.begin() + i, all.begin() + i + 32,
                     [](const auto& a, const auto& b) { return detail::beats<true>(a.score, b.score); });
  memcpy(static_cast<void*>(op.writes(dst, n * 8)), all.data(), n * 8);
}

template <class T>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& src, const MrgSort4Info& params, ASCENDC_AT) {
  ASCENDC_SORTABLE(MrgSort);
  const detail::Op op("MrgSort", at);
  if (params.validBit != 3 && params.validBit != 7 && params.validBit != 15)
    op.fail(detail::format("validBit is %u: 3, 7 or 15 say that two, three or four queues are there", params.validBit));
  if (params.repeatTimes > 1 && (params.ifExhaustedSuspension || params.validBit != 15))
    op.fail("more than one repeat wants four queues and no ifExhaustedSuspension");
  const LocalTensor<T>* lists[4] = {&src.src1, &src.src2, &src.src3, &src.src4};
  uint16_t length[4] = {};
  uint64_t total = 0;
  for (int q = 0; q < 4; ++q) {
    if (!(params.validBit >> q & 1)) continue;
    length[q] = params.elementLengths[q];
    if (length[q] > 4095) op.fail(detail::format("queue %d has %u elements: 0 to 4095", q + 1, length[q]));
    if (params.repeatTimes > 1 && length[q] != params.elementLengths[0])
      op.fail("more than one repeat wants queues of one length");
    total += length[q];
  }
  std::vector<detail::Scored<T>> result(total * params.repeatTimes);
  uint32_t n = 0;
  for (uint32_t r = 0; r < params.repeatTimes; ++r) {
    const detail::Scored<T>* from[4] = {};
    for (int q = 0; q < 4; ++q)
      if (length[q])
        from[q] = reinterpret_cast<const detail::Scored<T>*>(
                      op.reads(*lists[q], (r * total + length[q]) * 8, "src", 8,
                               [&](uint64_t, auto f) { f(r * total * 8, length[q] * 8ull); })) +
                  r * total;
    n += detail::merge(from, length, params.ifExhaustedSuspension, result.data() + n, op.core().merged);
  }
  memcpy(static_cast<void*>(op.writes(dst, n * 8ull)), result.data(), n * 8ull);
}

// The same with its parameters apart. sortedNum, written with isExhaustedSuspension: how many were taken from each queue.
template <class T, bool isExhaustedSuspension = false>
void MrgSort(const LocalTensor<T>& dst, const MrgSortSrcList<T>& sortList, const uint16_t elementCountList[4],
             uint32_t sortedNum[4], uint16_t validBit, int32_t repeatTime, ASCENDC_AT) {
  const detail::Op op("MrgSort", at);
  op.need_repeats(repeatTime);
  MrgSort(dst, sortList,
          MrgSort4Info(elementCountList, isExhaustedSuspension, validBit, static_cast<uint16_t>(repeatTime)), at);
  if constexpr (isExhaustedSuspension) std::copy_n(op.core().merged, 4, sortedNum);
}

// How many elements the last MrgSort took from each queue.
inline void GetMrgSortResult(uint16_t& a, uint16_t& b, uint16_t& c, uint16_t& d, ASCENDC_AT) {
  const auto& m = detail::core(at, "GetMrgSortResult").merged;
  a = m[0], b = m[1], c = m[2], d = m[3];
}

// Elements of T that n sorted elements take.
template <class T>
uint32_t GetSortLen(uint32_t n) {
  return n * 8 / sizeof(T);
}
template <class T>
uint32_t GetSortOffset(uint32_t n) {
  return n * 8 / sizeof(T);
}

// On these chips scores need no preparation.
template <class T>
void Concat(LocalTensor<T>& concat, const LocalTensor<T>& src, const LocalTensor<T>&, int32_t, ASCENDC_AT) {
  ASCENDC_SORTABLE(Concat);
  concat = src;
  (void)at;
}

// repeatTime * 32 elements: each 32 by themselves, or all of them.
template <class T, bool isFullSort>
void Sort(const LocalTensor<T>& dst, const LocalTensor<T>& concat, const LocalTensor<uint32_t>& index,
          LocalTensor<T>& tmp, int32_t repeatTime, ASCENDC_AT) {
  ASCENDC_SORTABLE(Sort);
  const detail::Op op("Sort", at);
  if (!isFullSort) return Sort32(dst, concat, index, repeatTime, at);
  op.need_repeats(repeatTime);
  const size_t n = static_cast<size_t>(repeatTime) * 32;
  const T* score = op.reads(concat, n * sizeof(T), "concat");
  const uint32_t* indices = op.reads(index, n * 4, "index");
  op.writes(tmp, n * 8, "tmp");
  std::vector<detail::Scored<T>> all(n);
  for (size_t i = 0; i < n; ++i) all[i].score = score[i], all[i].index = indices[i];
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return detail::beats<true>(a.score, b.score); });
  memcpy(static_cast<void*>(op.writes(dst, n * 8)), all.data(), n * 8);
}

// Scores and indices apart again: 32 a repeat.
template <class T>
void Extract(const LocalTensor<T>& dstValue, const LocalTensor<uint32_t>& dstIndex, const LocalTensor<T>& sorted,
             int32_t repeatTime, ASCENDC_AT) {
  ASCENDC_SORTABLE(Extract);
  const detail::Op op("Extract", at);
  op.need_repeats(repeatTime);
  const size_t n = static_cast<size_t>(repeatTime) * 32;
  const auto* all = reinterpret_cast<const detail::Scored<T>*>(op.reads(sorted, n * 8, "sorted"));
  T* value = op.writes(dstValue, n * sizeof(T), "dstValue");
  uint32_t* index = op.writes(dstIndex, n * 4, "dstIndex");
  for (size_t i = 0; i < n; ++i) value[i] = all[i].score, index[i] = all[i].index;
}
#undef ASCENDC_SORTABLE

}  // namespace AscendC
