// Which elements an instruction works on: a count, or a mask and repeats of 256 bytes in blocks of 32 with strides. What it is not: the
// computation; that is given as a loop over a run of elements, which the compiler vectorizes. Called by every vector instruction.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "ascendc/op.h"
#include "ascendc/params.h"

namespace AscendC::detail {

struct Lanes {
  uint64_t bits[2];
  int prefix;  // the first `prefix` of each repeat, or -1: as `bits` say
  int each;    // elements of a repeat
  int repeats;
  int last;  // the first elements of the last repeat; `each` but in counter mode

  int highest() const {
    if (prefix >= 0) return prefix - 1;
    return bits[1] ? 127 - std::countl_zero(bits[1]) : 63 - std::countl_zero(bits[0]);
  }
  // Bytes that an operand spans, from its start.
  uint64_t span(uint32_t size, uint32_t blk, uint32_t rep) const { return span_of_bits(size * 8, blk, rep); }
  // The same of elements of so many bits.
  uint64_t span_of_bits(uint32_t bits, uint32_t blk, uint32_t rep) const {
    if (repeats == 0) return 0;
    const uint32_t per = 256 / bits;
    const auto reach = [&](int lane) -> uint64_t {
      return lane < 0 ? 0
                      : static_cast<uint64_t>(lane) / per * blk * 32 +
                            ((static_cast<uint64_t>(lane) % per + 1) * bits + 7) / 8;
    };
    const uint64_t tail = static_cast<uint64_t>(repeats - 1) * rep * 32 + reach(std::min(highest(), last - 1));
    return repeats > 1 ? std::max(tail, static_cast<uint64_t>(repeats - 2) * rep * 32 + reach(highest())) : tail;
  }
};

inline Lanes lanes_of_count(uint64_t count, int each) {
  const int repeats = static_cast<int>((count + each - 1) / each);
  return {
      {0, 0}, each, each, repeats, static_cast<int>(count - static_cast<uint64_t>(std::max(repeats - 1, 0)) * each)};
}

inline Lanes lanes_of_bits(const Op& op, uint64_t low, uint64_t high, int each, int repeats) {
  if (each <= 64) high = 0;
  if (each < 64) low &= (1ull << each) - 1;
  if (low == 0 && high == 0) op.fail("the mask is empty: at least one bit is set");
  const int ones = low == ~0ull ? 64 + std::countr_one(high) : std::countr_one(low);
  const bool first = ones == std::popcount(low) + std::popcount(high);
  return {{low, high}, first ? ones : -1, each, repeats, each};
}

// A mask that counts.
inline uint64_t counter(uint64_t mask, Site at, const char* what) {
  if (mask > UINT32_MAX)
    fail(at, what,
         format("the mask is %llu, in counter mode the number of elements: no buffer has so many",
                static_cast<unsigned long long>(mask)));
  return mask;
}
inline Lanes lanes_of_counter(const Op& op, uint64_t mask, int each) {
  return lanes_of_count(counter(mask, op.at(), op.name()), each);
}

inline bool from_register(const Op& op, int each, int64_t repeats, Lanes* lanes) {
  const Core& c = op.core();
  *lanes = c.counter ? lanes_of_counter(op, c.mask[0], each)
                     : lanes_of_bits(op, c.mask[0], c.mask[1], each, static_cast<int>(repeats));
  return true;
}

// How many elements a form by count has: in counter mode without isSetMask as many as the mask register says.
template <bool set>
int64_t counted(int64_t count, Site at, const char* what) {
  if constexpr (set) return count;
  const Core& c = core(at, what);
  return c.counter ? static_cast<int64_t>(counter(c.mask[0], at, what)) : count;
}

// The first `mask` elements of each repeat; in counter mode `mask` elements in all.
template <bool set>
Lanes lanes_of(const Op& op, uint64_t mask, int64_t repeats, int each) {
  op.need_repeats(repeats);
  Lanes lanes;
  if (!set && from_register(op, each, repeats, &lanes)) return lanes;
  if (op.core().counter) return lanes_of_counter(op, mask, each);
  if (mask < 1 || mask > static_cast<uint64_t>(each))
    op.fail(format("the mask is %llu, and of this type a repeat has 1 to %d elements",
                   static_cast<unsigned long long>(mask), each));
  return {{0, 0}, static_cast<int>(mask), each, static_cast<int>(repeats), each};
}
template <bool set>
Lanes lanes_of(const Op& op, const uint64_t* mask, int64_t repeats, int each) {
  op.need_repeats(repeats);
  Lanes lanes;
  if (!set && from_register(op, each, repeats, &lanes)) return lanes;
  if (mask == nullptr) op.fail("the mask is a null pointer");
  if (op.core().counter) return lanes_of_counter(op, mask[0], each);
  return lanes_of_bits(op, mask[0], each > 64 ? mask[1] : 0, each, static_cast<int>(repeats));
}

// Of an operand with `per` elements a block: the blocks that have an active lane.
struct Blocks {
  const Lanes& lanes;
  uint32_t per, blk, rep;
  template <class F>
  void operator()(uint64_t bytes, F f) const {
    const int n = static_cast<int>(per);
    if (lanes.prefix == lanes.each && blk == 1 && rep * per == static_cast<uint32_t>(lanes.each)) return f(0, bytes);
    for (int r = 0; r < lanes.repeats; ++r)
      for (int e = 0; e < std::min(lanes.highest() + 1, r + 1 < lanes.repeats ? lanes.each : lanes.last); e += n)
        if (active(e, std::min(e + n, r + 1 < lanes.repeats ? lanes.each : lanes.last)))
          f((uint64_t{rep} * static_cast<uint32_t>(r) + uint64_t{blk} * static_cast<uint32_t>(e / n)) * 32, 32);
  }
  bool active(int from, int to) const {
    if (lanes.prefix >= 0) return from < lanes.prefix;
    for (int e = from; e < to; ++e)
      if (lanes.bits[e / 64] >> (e % 64) & 1) return true;
    return false;
  }
};

template <class T>
struct Operand {
  T* p;
  uint32_t blk, rep;  // strides in blocks of 32 bytes
  static constexpr int kPer = 32 / sizeof(T);
  T* at(int repeat, int lane) const {
    return p + (static_cast<size_t>(repeat) * rep + static_cast<size_t>(lane / kPer) * blk) * kPer + lane % kPer;
  }
};

// An operand of the instruction, checked for all that the lanes touch.
template <class T>
Operand<const T> source(const Op& op, const Lanes& l, const LocalTensor<T>& t, uint32_t blk, uint32_t rep,
                        const char* which = "src") {
  return {op.reads(t, l.span(sizeof(T), blk, rep), which, 32, Blocks{l, 32 / sizeof(T), blk, rep}), blk, rep};
}
template <class T>
Operand<T> target(const Op& op, const Lanes& l, const LocalTensor<T>& t, uint32_t blk, uint32_t rep) {
  return {op.writes(t, l.span(sizeof(T), blk, rep), "dst", 32, Blocks{l, 32 / sizeof(T), blk, rep}), blk, rep};
}

// Calls f(n, pointers...) for runs of n active elements, in order.
template <class F, class... T>
void sweep(const Lanes& l, F f, Operand<T>... o) {
  constexpr int kWidest = static_cast<int>(std::max({sizeof(T)...})), kStep = 32 / kWidest;
  if (l.repeats == 0) return;
  if (l.prefix >= 0 && ((o.blk == 1) && ...)) {
    if (l.prefix == l.each && ((o.rep == l.each * sizeof(T) / 32) && ...)) {
      f(static_cast<size_t>(l.repeats - 1) * l.each + l.last, o.p...);
      return;
    }
    for (int r = 0; r < l.repeats; ++r) f(std::min(l.prefix, r + 1 < l.repeats ? l.each : l.last), o.at(r, 0)...);
    return;
  }
  for (int r = 0; r < l.repeats; ++r) {
    const int end = r + 1 < l.repeats ? l.each : l.last;
    for (int e = 0; e < end; e += kStep) {
      if (l.prefix >= 0) {
        if (const int n = std::min({kStep, l.prefix - e, end - e}); n > 0) f(n, o.at(r, e)...);
        continue;
      }
      for (int i = e; i < std::min(e + kStep, end); ++i)
        if (l.bits[i / 64] >> (i % 64) & 1) f(1, o.at(r, i)...);
    }
  }
}

}  // namespace AscendC::detail
