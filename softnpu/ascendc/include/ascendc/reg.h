// The register API (the 950): RegTensor holds 256 bytes, MaskReg a bit for each of them; an element's first bit counts. Addresses are of the
// unified buffer; they are checked as operands are. What it is not: instructions on tensors (op.h); numbers of 64 bits. Called by kernels.
// Long because it is one API: registers, their masks, what brings them and what they do, all by the same few rules.
#pragma once

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ascendc/arithmetic.h"
#include "ascendc/compare.h"
#include "ascendc/core.h"
#include "ascendc/round.h"
#include "ascendc/types.h"

#if __NPU_ARCH__ == 3510

#define __simd_vf__
#define __simd_callee__
#define __VEC_SCOPE__
#define __local_mem__

namespace AscendC {

inline constexpr uint32_t VECTOR_REG_WIDTH = 256;
constexpr uint32_t GetVecLen() { return VECTOR_REG_WIDTH; }
// AR: the bytes that GatherMask has kept since ClearSpr.
enum class SpecialPurposeReg : uint8_t { AR };
template <SpecialPurposeReg spr>
int64_t GetSpr(ASCENDC_AT) {
  return static_cast<int64_t>(detail::core(at, "GetSpr").kept_bytes);
}
template <SpecialPurposeReg spr>
void ClearSpr(ASCENDC_AT) {
  detail::core(at, "ClearSpr").kept_bytes = 0;
}

namespace Reg {

using AscendC::ClearSpr;
using AscendC::GetSpr;
using AscendC::SpecialPurposeReg;

struct DefaultType {};
enum class MaskMergeMode : uint8_t { UNKNOWN = 0, MERGING, ZEROING };
enum class RegLayout : uint8_t { UNKNOWN = 255, ZERO = 0, ONE, TWO, THREE };
enum class SatMode : uint8_t { UNKNOWN = 255, NO_SAT = 0, SAT };
enum class MaskPattern : uint8_t { ALL, VL1, VL2, VL3, VL4, VL8, VL16, VL32, VL64, VL128, M3, M4, H, Q, ALLF };
enum class LoadDist : uint8_t {
  DIST_NORM,
  DIST_BRC_B8,
  DIST_BRC_B16,
  DIST_BRC_B32,
  DIST_UNPACK_B8,
  DIST_UNPACK_B16,
  DIST_BLK
};
enum class StoreDist : uint8_t {
  DIST_NORM,
  DIST_NORM_B8,
  DIST_NORM_B16,
  DIST_NORM_B32,
  DIST_FIRST_ELEMENT_B8,
  DIST_FIRST_ELEMENT_B16,
  DIST_FIRST_ELEMENT_B32,
  DIST_PACK_B16,
  DIST_PACK_B32
};
enum class PostLiteral : uint8_t { POST_MODE_NORMAL, POST_MODE_UPDATE };
enum class GatherMaskMode : uint8_t { NO_STORE_REG, STORE_REG };
enum class MemType : uint8_t { VEC_STORE, VEC_LOAD, SCALAR_STORE, SCALAR_LOAD, VEC_ALL, SCALAR_ALL };
struct CastTrait {
  RegLayout layoutMode = RegLayout::UNKNOWN;
  SatMode satMode = SatMode::UNKNOWN;
  MaskMergeMode mrgMode = MaskMergeMode::UNKNOWN;
  RoundMode roundMode = RoundMode::CAST_NONE;
};

template <class T>
struct RegTensor {
  static_assert(sizeof(T) <= 4 && detail::per_byte<T> == 1, "RegTensor: of numbers of 8, 16 and 32 bits");
  using ActualT = T;
  static constexpr uint32_t kCount = VECTOR_REG_WIDTH / sizeof(T);
  T values[kCount];
};
struct MaskReg {
  std::bitset<VECTOR_REG_WIDTH> bits;
  template <class T>
  bool has(uint32_t element) const {
    return bits[element * sizeof(T)];
  }
};
struct UnalignReg {};
struct AddrReg {
  uint64_t bytes = 0;
};

}  // namespace Reg
namespace MicroAPI = Reg;

namespace detail {

template <class R>
inline constexpr bool is_register = false;
template <class T>
inline constexpr bool is_register<Reg::RegTensor<T>> = true;
template <class R>
concept Register = is_register<R>;

// An address in the unified buffer, as a tensor's GetPhyAddr gives it. What is read may reach beyond its buffer, as it may on the chip.
template <class T, class Pieces = AllBytes>
uint8_t* register_place(const T* address, uint64_t offset, uint32_t bytes, uint32_t alignment, bool write,
                        const char* what, Site at, const Pieces& pieces = {}) {
  Core& c = core(at, what);
  const uint64_t start = reinterpret_cast<uintptr_t>(address) + offset;
  c.be(Core::Kind::kVectorCore, what, what, at);
  c.hazards.issue(kVector, what, at);
  if (start % alignment)
    fail(at, what,
         format("address %llu of the unified buffer is not aligned to %u bytes", static_cast<unsigned long long>(start),
                alignment));
  if (start > c.block.chip->unified_buffer || bytes > c.block.chip->unified_buffer - start)
    fail(at, what,
         format("bytes %lld to %lld lie outside of the unified buffer of %u", static_cast<long long>(start),
                static_cast<long long>(start + bytes), c.block.chip->unified_buffer));
  const Room* room = nullptr;
  for (const Room& r : c.rooms)
    if (r.space() == kUnified && start >= r.start && start < r.start + r.bytes()) room = &r;
  if (room == nullptr)
    fail(at, what,
         format("address %llu of the unified buffer is in no buffer: InitBuffer gives them",
                static_cast<unsigned long long>(start)));
  const uint64_t end = room->start + room->bytes();
  if (write && start + bytes > end)
    fail(at, what,
         format("%u bytes from byte %llu of %s on leave it: it has %u", bytes,
                static_cast<unsigned long long>(start - room->start), room->name().c_str(), room->bytes()));
  if (c.hazards.on())
    pieces(std::min(bytes + start, end) - start, [&](uint64_t first, uint64_t n) {
      c.hazards.use(kVector, kUnified, static_cast<uint32_t>(start + first), static_cast<uint32_t>(n), write);
    });
  return c.block.unified_buffer + start;
}

template <Reg::MaskMergeMode mode, class T, class F>
void each_lane(Reg::RegTensor<T>& dst, const Reg::MaskReg& mask, F f) {
  for (uint32_t i = 0; i < dst.kCount; ++i)
    if (mask.has<T>(i))
      dst.values[i] = f(i);
    else if (mode != Reg::MaskMergeMode::MERGING)
      dst.values[i] = T(0);
}

}  // namespace detail

namespace Reg {

// Which elements take part.
template <class T, MaskPattern pattern = MaskPattern::ALL>
MaskReg CreateMask() {
  constexpr int n = VECTOR_REG_WIDTH / sizeof(T), k = static_cast<int>(pattern);
  constexpr int kFirst[] = {n, 1, 2, 3, 4, 8, 16, 32, 64, 128, n, n, n / 2, n / 4, 0};
  MaskReg mask;
  for (int i = 0; i < std::min(n, kFirst[k]); ++i)
    mask.bits[i * sizeof(T)] = pattern == MaskPattern::M3 ? i % 3 == 0 : pattern == MaskPattern::M4 ? i % 4 == 0 : true;
  return mask;
}
// The first `count` elements (all, if `count` is more); `count` becomes what is left for the next register.
template <class T>
MaskReg UpdateMask(uint32_t& count) {
  constexpr uint32_t n = VECTOR_REG_WIDTH / sizeof(T);
  MaskReg mask;
  for (uint32_t i = 0; i < std::min(n, count); ++i) mask.bits[i * sizeof(T)] = true;
  count -= std::min(n, count);
  return mask;
}
#define ASCENDC_MASKS(Name, Other, value)                                                    \
  inline void Name(MaskReg& dst, const MaskReg& a, const MaskReg& b, const MaskReg& mask) {  \
    dst.bits = (value) & mask.bits;                                                          \
  }                                                                                          \
  inline void Other(MaskReg& dst, const MaskReg& a, const MaskReg& b, const MaskReg& mask) { \
    dst.bits = (value) & mask.bits;                                                          \
  }
ASCENDC_MASKS(And, MaskAnd, a.bits & b.bits)
ASCENDC_MASKS(Or, MaskOr, a.bits | b.bits)
ASCENDC_MASKS(Xor, MaskXor, a.bits ^ b.bits)
#undef ASCENDC_MASKS
inline void Not(MaskReg& dst, const MaskReg& a, const MaskReg& mask) { dst.bits = ~a.bits & mask.bits; }
inline void MaskNot(MaskReg& dst, const MaskReg& a, const MaskReg& mask) { Not(dst, a, mask); }

// Offsets in elements of T.
template <class T>
AddrReg CreateAddrReg(uint16_t index0, uint32_t stride0, uint16_t index1 = 0, uint32_t stride1 = 0, uint16_t index2 = 0,
                      uint32_t stride2 = 0, uint16_t index3 = 0, uint32_t stride3 = 0) {
  return {(uint64_t{index0} * stride0 + uint64_t{index1} * stride1 + uint64_t{index2} * stride2 +
           uint64_t{index3} * stride3) *
          sizeof(T)};
}
// Instructions take effect in program order.
template <MemType before, MemType after>
void LocalMemBar() {}

// From the unified buffer: all of a register, one element for all, 32 bytes over and over (DIST_BLK), or each element as the lower half
// of a wider one.
template <class T = DefaultType, LoadDist dist = LoadDist::DIST_NORM, detail::Register R, class U>
void DataCopy(R& dst, U* src, AddrReg offset, ASCENDC_AT) {
  constexpr bool brc =
      dist == LoadDist::DIST_BRC_B8 || dist == LoadDist::DIST_BRC_B16 || dist == LoadDist::DIST_BRC_B32;
  constexpr bool unpack = dist == LoadDist::DIST_UNPACK_B8 || dist == LoadDist::DIST_UNPACK_B16;
  constexpr uint32_t narrow = dist == LoadDist::DIST_BRC_B8 || dist == LoadDist::DIST_UNPACK_B8     ? 1
                              : dist == LoadDist::DIST_BRC_B16 || dist == LoadDist::DIST_UNPACK_B16 ? 2
                                                                                                    : 4;
  auto* to = reinterpret_cast<uint8_t*>(dst.values);
  if constexpr (brc) {
    const uint8_t* from = detail::register_place(src, offset.bytes, narrow, narrow, false, "DataCopy", at);
    for (uint32_t i = 0; i < VECTOR_REG_WIDTH; ++i) to[i] = from[i % narrow];
  } else if constexpr (unpack) {
    const uint8_t* from = detail::register_place(src, offset.bytes, VECTOR_REG_WIDTH / 2, 32, false, "DataCopy", at);
    for (uint32_t i = 0; i < VECTOR_REG_WIDTH; ++i)
      to[i] = i % (2 * narrow) < narrow ? from[i / (2 * narrow) * narrow + i % narrow] : 0;
  } else if constexpr (dist == LoadDist::DIST_BLK) {
    const uint8_t* from = detail::register_place(src, offset.bytes, 32, 32, false, "DataCopy", at);
    for (uint32_t i = 0; i < VECTOR_REG_WIDTH; ++i) to[i] = from[i % 32];
  } else {
    memcpy(to, detail::register_place(src, offset.bytes, VECTOR_REG_WIDTH, 32, false, "DataCopy", at),
           VECTOR_REG_WIDTH);
  }
}
template <class T = DefaultType, LoadDist dist = LoadDist::DIST_NORM, detail::Register R, class U>
void DataCopy(R& dst, U* src, ASCENDC_AT) {
  DataCopy<T, dist>(dst, src, AddrReg{}, at);
}
template <class T, PostLiteral post, LoadDist dist = LoadDist::DIST_NORM, detail::Register R, class U>
void DataCopy(R& dst, U*& src, int32_t stride, ASCENDC_AT) {
  DataCopy<T, dist>(dst, src, AddrReg{}, at);
  if (post == PostLiteral::POST_MODE_UPDATE) src += stride;
}
}  // namespace Reg
namespace detail {
// How wide the register's elements are that a store goes by. Packing leaves the upper half of each out; a register of numbers half as wide
// has them in every second place, as Cast puts them.
template <Reg::StoreDist dist, class V>
consteval uint32_t stored_width() {
  using enum Reg::StoreDist;
  static_assert((dist != DIST_NORM_B8 && dist != DIST_FIRST_ELEMENT_B8) || sizeof(V) == 1,
                "DataCopy: DIST_NORM_B8 and DIST_FIRST_ELEMENT_B8 are for registers of numbers of 8 bits");
  static_assert((dist != DIST_NORM_B16 && dist != DIST_FIRST_ELEMENT_B16) || sizeof(V) == 2,
                "DataCopy: DIST_NORM_B16 and DIST_FIRST_ELEMENT_B16 are for registers of numbers of 16 bits");
  static_assert((dist != DIST_NORM_B32 && dist != DIST_FIRST_ELEMENT_B32) || sizeof(V) == 4,
                "DataCopy: DIST_NORM_B32 and DIST_FIRST_ELEMENT_B32 are for registers of numbers of 32 bits");
  static_assert(dist != DIST_PACK_B16 || sizeof(V) <= 2,
                "DataCopy: DIST_PACK_B16 is for registers of numbers of 16 bits, or of 8");
  static_assert(dist != DIST_PACK_B32 || sizeof(V) >= 2,
                "DataCopy: DIST_PACK_B32 is for registers of numbers of 32 bits, or of 16");
  return dist == DIST_PACK_B16 ? 2 : dist == DIST_PACK_B32 ? 4 : sizeof(V);
}
}  // namespace detail
namespace Reg {

// Into the unified buffer, what the mask names.
template <class T = DefaultType, StoreDist dist = StoreDist::DIST_NORM, class U, detail::Register R>
void DataCopy(U* dst, const R& src, AddrReg offset, const MaskReg& mask, ASCENDC_AT) {
  constexpr bool first = dist == StoreDist::DIST_FIRST_ELEMENT_B8 || dist == StoreDist::DIST_FIRST_ELEMENT_B16 ||
                         dist == StoreDist::DIST_FIRST_ELEMENT_B32;
  constexpr bool pack = dist == StoreDist::DIST_PACK_B16 || dist == StoreDist::DIST_PACK_B32;
  constexpr uint32_t width = detail::stored_width<dist, typename R::ActualT>(), size = pack ? width / 2 : width;
  uint32_t end = 0;
  for (uint32_t i = 0; i < (first ? 1 : VECTOR_REG_WIDTH / width); ++i)
    if (first || mask.bits[i * width]) end = (i + 1) * size;
  if (end == 0) return;
  const auto* from = reinterpret_cast<const uint8_t*>(src.values);
  const auto stored = [&](uint64_t, auto f) {  // blocks
    for (uint32_t b = 0, i = 0; b < end; b += 32) {
      bool any = first;
      for (; i < std::min(b + 32, end) / size; ++i) any = any || mask.bits[i * width];
      if (any) f(b, std::min(32u, end - b));
    }
  };
  uint8_t* to = detail::register_place(dst, offset.bytes, end, first ? size : 32, true, "DataCopy", at, stored);
  for (uint32_t i = 0; i < end / size; ++i)
    if (first || mask.bits[i * width]) memcpy(to + i * size, from + i * width, size);
}
template <class T = DefaultType, StoreDist dist = StoreDist::DIST_NORM, class U, detail::Register R>
void DataCopy(U* dst, const R& src, const MaskReg& mask, ASCENDC_AT) {
  DataCopy<T, dist>(dst, src, AddrReg{}, mask, at);
}
template <class T, PostLiteral post, StoreDist dist = StoreDist::DIST_NORM, class U, detail::Register R>
void DataCopy(U*& dst, const R& src, int32_t stride, const MaskReg& mask, ASCENDC_AT) {
  DataCopy<T, dist>(dst, src, AddrReg{}, mask, at);
  if (post == PostLiteral::POST_MODE_UPDATE) dst += stride;
}
// Masks: 32 bytes.
template <class U>
void DataCopy(MaskReg& dst, U* src, AddrReg offset = {}, ASCENDC_AT) {
  const uint8_t* from = detail::register_place(src, offset.bytes, VECTOR_REG_WIDTH / 8, 32, false, "DataCopy", at);
  for (uint32_t i = 0; i < VECTOR_REG_WIDTH; ++i) dst.bits[i] = detail::get_bit(from, i);
}
template <class U>
void DataCopy(U* dst, const MaskReg& src, AddrReg offset = {}, ASCENDC_AT) {
  uint8_t* to = detail::register_place(dst, offset.bytes, VECTOR_REG_WIDTH / 8, 32, true, "DataCopy", at);
  for (uint32_t i = 0; i < VECTOR_REG_WIDTH; ++i) detail::put_bit(to, i, src.bits[i]);
}

// The elements that the mask names, at the front; STORE_REG adds their number of bytes to AR.
template <class T = DefaultType, GatherMaskMode store = GatherMaskMode::NO_STORE_REG, detail::Register R>
void GatherMask(R& dst, const R& src, const MaskReg& mask, ASCENDC_AT) {
  using V = typename R::ActualT;
  R kept{};
  uint32_t n = 0;
  for (uint32_t i = 0; i < R::kCount; ++i)
    if (mask.has<V>(i)) kept.values[n++] = src.values[i];
  dst = kept;
  if (store == GatherMaskMode::NO_STORE_REG) return;
  detail::Core& c = detail::core(at, "GatherMask");
  c.kept_last = static_cast<uint32_t>(n * sizeof(V));
  c.kept_bytes += c.kept_last;
}
// To an address of any alignment: without a stride, what the last GatherMask kept, behind all it kept before; with one, that many elements.
template <class U, detail::Register R>
void DataCopyUnAlign(U*& dst, const R& src, UnalignReg&, ASCENDC_AT) {
  static_assert(sizeof(U) == sizeof(typename R::ActualT),
                "DataCopyUnAlign: dst is of numbers as wide as the register's");
  detail::Core& c = detail::core(at, "DataCopyUnAlign");
  if (c.kept_last == 0) return;
  memcpy(detail::register_place(dst, c.kept_bytes - c.kept_last, c.kept_last, 1, true, "DataCopyUnAlign", at),
         src.values, c.kept_last);
  c.kept_last = 0;
}
template <class T = DefaultType, PostLiteral post = PostLiteral::POST_MODE_UPDATE, class U, detail::Register R>
void DataCopyUnAlign(U*& dst, const R& src, UnalignReg&, uint32_t stride, ASCENDC_AT) {
  static_assert(sizeof(U) == sizeof(typename R::ActualT),
                "DataCopyUnAlign: dst is of numbers as wide as the register's");
  if (stride == 0 || stride > R::kCount)
    detail::fail(at, "DataCopyUnAlign", detail::format("%u elements: a register has 1 to %u", stride, R::kCount));
  memcpy(detail::register_place(dst, 0, static_cast<uint32_t>(stride * sizeof(U)), 1, true, "DataCopyUnAlign", at),
         src.values, stride * sizeof(U));
  if (post == PostLiteral::POST_MODE_UPDATE) dst += stride;
}
// All has been written by then.
template <class U>
void DataCopyUnAlignPost(U*&, UnalignReg&) {}
template <class T = DefaultType, PostLiteral post = PostLiteral::POST_MODE_UPDATE, class U>
void DataCopyUnAlignPost(U*&, UnalignReg&, int32_t) {}

#define ASCENDC_OF_REGISTERS \
  template <class T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, detail::Register R>
#define ASCENDC_UNARY(Name, value)                                            \
  ASCENDC_OF_REGISTERS void Name(R& dst, const R& src, const MaskReg& mask) { \
    using V = typename R::ActualT;                                            \
    detail::each_lane<mode>(dst, mask, [&](uint32_t i) -> V {                 \
      const V a = src.values[i];                                              \
      return value;                                                           \
    });                                                                       \
  }
ASCENDC_UNARY(Abs, detail::magnitude(a))
ASCENDC_UNARY(Neg, detail::mul(a, V(-1)))
ASCENDC_UNARY(Relu, detail::relu(a))
ASCENDC_UNARY(Exp, detail::exp(a))
ASCENDC_UNARY(Ln, detail::ln(a))
ASCENDC_UNARY(Log, detail::ln(a))
ASCENDC_UNARY(Log2, detail::narrow<V>(std::log2(detail::widen(a))))
ASCENDC_UNARY(Log10, detail::narrow<V>(std::log10(detail::widen(a))))
ASCENDC_UNARY(Sqrt, detail::sqrt(a))
ASCENDC_UNARY(Not, detail::bit_not(a))
#undef ASCENDC_UNARY
#define ASCENDC_BINARY(Name, value)                                                           \
  ASCENDC_OF_REGISTERS void Name(R& dst, const R& src0, const R& src1, const MaskReg& mask) { \
    using V = typename R::ActualT;                                                            \
    detail::each_lane<mode>(dst, mask, [&](uint32_t i) -> V {                                 \
      const V a = src0.values[i], b = src1.values[i];                                         \
      return value;                                                                           \
    });                                                                                       \
  }
ASCENDC_BINARY(Add, detail::add(a, b))
ASCENDC_BINARY(Sub, detail::sub(a, b))
ASCENDC_BINARY(Mul, detail::mul(a, b))
ASCENDC_BINARY(Div, detail::div(a, b))
ASCENDC_BINARY(Max, detail::max(a, b))
ASCENDC_BINARY(Min, detail::min(a, b))
ASCENDC_BINARY(And, detail::bit_and(a, b))
ASCENDC_BINARY(Or, detail::bit_or(a, b))
ASCENDC_BINARY(Xor, static_cast<V>(a ^ b))
ASCENDC_BINARY(ShiftLeft, detail::shift_left(a, b))
ASCENDC_BINARY(ShiftRight, detail::shift_right(a, b))
// The product is rounded before the sum.
ASCENDC_BINARY(MulAddDst, detail::add(detail::mul(a, b), dst.values[i]))
ASCENDC_BINARY(FusedMulDstAdd, detail::add(detail::mul(dst.values[i], a), b))
#undef ASCENDC_BINARY
#define ASCENDC_SCALAR(Name, value)                                                                          \
  template <class T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, class S, detail::Register R> \
  void Name(R& dst, const R& src, S scalar, const MaskReg& mask) {                                           \
    using V = typename R::ActualT;                                                                           \
    const V b = static_cast<V>(scalar);                                                                      \
    detail::each_lane<mode>(dst, mask, [&](uint32_t i) -> V {                                                \
      const V a = src.values[i];                                                                             \
      return value;                                                                                          \
    });                                                                                                      \
  }
ASCENDC_SCALAR(Adds, detail::add(a, b))
ASCENDC_SCALAR(Muls, detail::mul(a, b))
ASCENDC_SCALAR(Maxs, detail::max(a, b))
ASCENDC_SCALAR(Mins, detail::min(a, b))
ASCENDC_SCALAR(LeakyRelu, detail::leaky_relu(a, b))
ASCENDC_SCALAR(Axpy, detail::add(detail::mul(a, b), dst.values[i]))
ASCENDC_SCALAR(ShiftLefts, detail::shift_left(a, b))
ASCENDC_SCALAR(ShiftRights, detail::shift_right(a, b))
#undef ASCENDC_SCALAR
#undef ASCENDC_OF_REGISTERS

template <class T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, class S, detail::Register R>
  requires std::is_convertible_v<S, typename R::ActualT>
void Duplicate(R& dst, S scalar, const MaskReg& mask) {
  const auto value = static_cast<typename R::ActualT>(scalar);
  detail::each_lane<mode>(dst, mask, [&](uint32_t) { return value; });
}
template <class T = DefaultType, class S, detail::Register R>
  requires std::is_convertible_v<S, typename R::ActualT>
void Duplicate(R& dst, S scalar) {
  std::fill_n(dst.values, R::kCount, static_cast<typename R::ActualT>(scalar));
}
// start, start + 1, ...
template <class T = DefaultType, class S, detail::Register R>
void Arange(R& dst, S start) {
  using V = typename R::ActualT;
  for (uint32_t i = 0; i < R::kCount; ++i) dst.values[i] = detail::add(static_cast<V>(start), static_cast<V>(i));
}
template <class T = DefaultType, CMPMODE compare = CMPMODE::EQ, detail::Register R>
void Compare(MaskReg& dst, const R& src0, const R& src1, const MaskReg& mask) {
  using V = typename R::ActualT;
  MaskReg result;
  for (uint32_t i = 0; i < R::kCount; ++i)
    result.bits[i * sizeof(V)] = mask.has<V>(i) && detail::holds(compare, src0.values[i], src1.values[i]);
  dst = result;
}
template <class T = DefaultType, CMPMODE compare = CMPMODE::EQ, detail::Register R, class S>
void CompareScalar(MaskReg& dst, const R& src, S scalar, const MaskReg& mask) {
  R other;
  Duplicate(other, scalar);
  Compare<T, compare>(dst, src, other, mask);
}
template <class T = DefaultType, CMPMODE compare = CMPMODE::EQ, detail::Register R, class S>
void Compares(MaskReg& dst, const R& src, S scalar, const MaskReg& mask) {
  CompareScalar<T, compare>(dst, src, scalar, mask);
}
template <class T = DefaultType, detail::Register R>
void Select(R& dst, const R& src0, const R& src1, const MaskReg& mask) {
  for (uint32_t i = 0; i < R::kCount; ++i)
    dst.values[i] = mask.has<typename R::ActualT>(i) ? src0.values[i] : src1.values[i];
}
// Two registers as one row: elements in turns, and back.
template <class T = DefaultType, detail::Register R>
void Interleave(R& dst0, R& dst1, const R& src0, const R& src1) {
  const R a = src0, b = src1;
  for (uint32_t i = 0; i < 2 * R::kCount; ++i)
    (i < R::kCount ? dst0 : dst1).values[i % R::kCount] = (i % 2 ? b : a).values[i / 2];
}
template <class T = DefaultType, detail::Register R>
void DeInterleave(R& dst0, R& dst1, const R& src0, const R& src1) {
  const R a = src0, b = src1;
  for (uint32_t i = 0; i < 2 * R::kCount; ++i)
    (i % 2 ? dst1 : dst0).values[i / 2] = (i < R::kCount ? a : b).values[i % R::kCount];
}
}  // namespace Reg
namespace detail {
template <class D, Reg::SatMode sat, RoundMode round, class V>
D cast(V value) {
  static_assert(round != RoundMode::CAST_ODD || (std::is_same_v<D, half> && std::is_same_v<V, float>),
                "Cast: CAST_ODD is for float to half");
  if constexpr (sat == Reg::SatMode::NO_SAT && std::is_integral_v<D> && std::is_integral_v<V>)
    return static_cast<D>(value);
  else
    return convert<D, V, round == RoundMode::UNKNOWN ? RoundMode::CAST_NONE : round>(value);
}
}  // namespace detail
namespace Reg {

// To whole numbers, as floats.
template <class T = DefaultType, RoundMode round = RoundMode::CAST_NONE, MaskMergeMode mode = MaskMergeMode::ZEROING,
          detail::Register R>
void Truncate(R& dst, const R& src, const MaskReg& mask) {
  using V = typename R::ActualT;
  detail::each_lane<mode>(dst, mask, [&](uint32_t i) {
    return static_cast<V>(detail::to_integral<round>(static_cast<float>(src.values[i])));
  });
}
// Into another type, saturating; of whole numbers NO_SAT keeps the low bits. Of types of unlike width, `layoutMode` says which of the places beside each other the narrow one has;
// an element is left out where the mask has not the first bit of the wider one.
template <class T = DefaultType, class U = DefaultType, auto trait = CastTrait{}, detail::Register R,
          detail::Register S>
void Cast(R& dst, const S& src, const MaskReg& mask) {
  using D = typename R::ActualT;
  using V = typename S::ActualT;
  constexpr uint32_t wide = std::max(sizeof(D), sizeof(V)), d = wide / sizeof(D), s = wide / sizeof(V);
  constexpr uint32_t at = trait.layoutMode == RegLayout::UNKNOWN ? 0 : static_cast<uint32_t>(trait.layoutMode);
  static_assert(at < std::max({d, s, 1u}) || (d == 1 && s == 1),
                "Cast: the types have not so many places beside each other");
  R result = dst;
  if (trait.mrgMode != MaskMergeMode::MERGING) std::fill_n(result.values, R::kCount, D(0));
  for (uint32_t i = 0; i < VECTOR_REG_WIDTH / wide; ++i)
    if (mask.bits[i * wide])
      result.values[i * d + (d > 1 ? at : 0)] =
          detail::cast<D, trait.satMode, trait.roundMode>(src.values[i * s + (s > 1 ? at : 0)]);
  dst = result;
}

}  // namespace Reg

// The same by their newer names.
namespace Reg {
template <class T = DefaultType, LoadDist dist = LoadDist::DIST_NORM, detail::Register R, class U>
void LoadAlign(R& dst, U* src, ASCENDC_AT) {
  DataCopy<T, dist>(dst, src, AddrReg{}, at);
}
template <class T = DefaultType, StoreDist dist = StoreDist::DIST_NORM, class U, detail::Register R>
void StoreAlign(U* dst, const R& src, const MaskReg& mask, ASCENDC_AT) {
  DataCopy<T, dist>(dst, src, AddrReg{}, mask, at);
}
}  // namespace Reg
}  // namespace AscendC

#endif
