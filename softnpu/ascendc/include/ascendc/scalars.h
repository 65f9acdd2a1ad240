// Arithmetic of the scalar unit that kernels size their tiles by: Ceil, AlignUp, DivCeil; how many numbers a block and a repeat have;
// bits and conversions of one number. Called by kernels. What it is not: instructions.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

#include "ascendc/round.h"

#define likely(condition) __builtin_expect(static_cast<bool>(condition), 1)
#define unlikely(condition) __builtin_expect(static_cast<bool>(condition), 0)

// C has it for int alone, and a number with a fraction would become one first. One of the kernel's own goes before it: `None` sees to that.
template <class T, class... None>
  requires(AscendC::detail::one_of<T, half, bfloat16_t, float, double, long, long long> && sizeof...(None) == 0)
constexpr T abs(T x, None...) {
  return x <= T(0) ? static_cast<T>(T(0) - x) : x;  // of -0, too
}

namespace AscendC {

inline constexpr int32_t B16_BYTE_SIZE = 2, B32_BYTE_SIZE = 4, B64_BYTE_SIZE = 8;
inline constexpr int32_t B16_DATA_NUM_PER_BLOCK = 16, B32_DATA_NUM_PER_BLOCK = 8, B64_DATA_NUM_PER_BLOCK = 4;
inline constexpr int32_t B16_DATA_NUM_PER_REPEAT = 128, B32_DATA_NUM_PER_REPEAT = 64, B64_DATA_NUM_PER_REPEAT = 32;
inline constexpr uint64_t FULL_MASK = ~0ull;
// Of the toolkit's inner headers; public kernels use them without a definition of their own.
inline constexpr int32_t ONE_REPEAT_FLOAT_SIZE = 64, BRCB_BROADCAST_NUMBER = 8, TWO = 2;
inline constexpr float PI = 3.14159265358979323846f;
#if __NPU_ARCH__ == 2201
inline constexpr uint32_t TOTAL_UB_SIZE = 192 * 1024;
#elif __NPU_ARCH__ == 3510
inline constexpr uint32_t TOTAL_UB_SIZE = 248 * 1024;
#else
inline constexpr uint32_t TOTAL_UB_SIZE = 256 * 1024;
#endif

// a / b, rounded up; of b = 0 it is a.
template <std::integral A, std::integral B>
constexpr auto DivCeil(A a, B b) {
  using T = std::common_type_t<A, B>;
  return b == 0 ? static_cast<T>(a) : static_cast<T>((static_cast<T>(a) + static_cast<T>(b) - 1) / static_cast<T>(b));
}
template <std::integral A, std::integral B>
constexpr auto Ceil(A a, B b) {
  return DivCeil(a, b);
}
template <std::integral A, std::integral B>
constexpr auto CeilDivision(A a, B b) {
  return DivCeil(a, b);
}
// The next multiple of `align`, or `a` itself.
template <std::integral A, std::integral B>
constexpr auto AlignUp(A a, B align) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(DivCeil(a, align) * static_cast<T>(align == 0 ? 1 : align));
}

// Where the lowest bit of that value (0 or 1) is; -1 if there is none.
template <int countValue>
constexpr int64_t ScalarGetSFFValue(uint64_t valueIn) {
  static_assert(countValue == 0 || countValue == 1, "ScalarGetSFFValue counts 0 or 1");
  const uint64_t bits = countValue ? valueIn : ~valueIn;
  return bits ? std::countr_zero(bits) : -1;
}
// How many bits have that value; how many are 0 above the highest 1.
template <int countValue>
constexpr int64_t ScalarGetCountOfValue(uint64_t valueIn) {
  static_assert(countValue == 0 || countValue == 1, "ScalarGetCountOfValue counts 0 or 1");
  return std::popcount(countValue ? valueIn : ~valueIn);
}
constexpr int64_t ScalarCountLeadingZero(uint64_t valueIn) { return std::countl_zero(valueIn); }
// One number with a round mode, as Cast; it has both names.
template <class T, class U, RoundMode roundMode>
U ScalarCast(T valueIn) {
  static_assert(std::is_same_v<T, float> && ((std::is_same_v<U, half> && roundMode == RoundMode::CAST_ODD) ||
                                             (std::is_same_v<U, int32_t> && roundMode != RoundMode::CAST_ODD)),
                "ScalarCast: from float to half with CAST_ODD, or to int32_t with another mode");
  return detail::convert<U, T, roundMode>(valueIn);
}
template <class T, class U, RoundMode roundMode>
U Cast(T valueIn) {
  return ScalarCast<T, U, roundMode>(valueIn);
}

inline constexpr uint32_t GetDataBlockSizeInBytes() { return ONE_BLK_SIZE; }

struct AscendCUtils {
  static constexpr int32_t GetBitSize(int32_t bytes) { return bytes * 8; }
};

}  // namespace AscendC

// Words that the chip's compiler itself has.
inline constexpr uint64_t sbitset0(uint64_t value, int64_t bit) { return value & ~(1ull << (bit & 63)); }
inline constexpr uint64_t sbitset1(uint64_t value, int64_t bit) { return value | 1ull << (bit & 63); }
