// High-level functions of numbers: Sin to Atanh, Erf, Log, Floor, Power, Clamp, CumSum and others, of each element. Called by kernels.
// What it is not: exact to the hardware's last bit; they are the C library's, in float, rounded once.
#pragma once

#include "ascendc/each.h"

namespace AscendC {
namespace detail {

inline float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }
inline float frac(float x) { return x - std::trunc(x); }
inline float sin(float x) { return std::sin(x); }
inline float cos(float x) { return std::cos(x); }
inline float tan(float x) { return std::tan(x); }
inline float sinh(float x) { return std::sinh(x); }
inline float cosh(float x) { return std::cosh(x); }
inline float tanh(float x) { return std::tanh(x); }
inline float asin(float x) { return std::asin(x); }
inline float acos(float x) { return std::acos(x); }
inline float atan(float x) { return std::atan(x); }
inline float asinh(float x) { return std::asinh(x); }
inline float acosh(float x) { return std::acosh(x); }
inline float atanh(float x) { return std::atanh(x); }
inline float erf(float x) { return std::erf(x); }
inline float erfc(float x) { return std::erfc(x); }
inline float lgamma(float x) {
  int of_sign;  // std::lgamma writes a global
  return ::lgammaf_r(x, &of_sign);
}
inline float log(float x) { return std::log(x); }
inline float log2(float x) { return std::log2(x); }
inline float log10(float x) { return std::log10(x); }
inline float floor(float x) { return std::floor(x); }
inline float ceil(float x) { return std::ceil(x); }
inline float trunc(float x) { return std::trunc(x); }
inline float round_even(float x) { return std::nearbyint(x); }
inline float fmod(float x, float y) { return std::fmod(x, y); }
inline float power(float x, float y) { return std::pow(x, y); }
// Integers: by squaring, which wraps; of a negative exponent only 1 and -1 leave something.
inline uint32_t power(uint32_t x, uint32_t y) {
  if (static_cast<int32_t>(y) < 0) return x == 1 || (x == ~0u && y % 2 == 0) ? 1 : x == ~0u ? x : 0;
  uint32_t r = 1;
  for (; y; y >>= 1, x *= x)
    if (y & 1) r *= x;
  return r;
}
inline uint32_t exclusive_or(uint32_t x, uint32_t y) { return x ^ y; }

}  // namespace detail

ASCENDC_EACH(Sin, sin, half, float)
ASCENDC_EACH(Cos, cos, half, float)
ASCENDC_EACH(Tan, tan, half, float)
ASCENDC_EACH(Sinh, sinh, half, float)
ASCENDC_EACH(Cosh, cosh, half, float)
ASCENDC_EACH(Tanh, tanh, half, float)
ASCENDC_EACH(Asin, asin, half, float)
ASCENDC_EACH(Acos, acos, half, float)
ASCENDC_EACH(Atan, atan, half, float)
ASCENDC_EACH(Asinh, asinh, half, float)
ASCENDC_EACH(Acosh, acosh, half, float)
ASCENDC_EACH(Atanh, atanh, half, float)
ASCENDC_EACH(Erf, erf, half, float)
ASCENDC_EACH(Erfc, erfc, half, float)
ASCENDC_EACH(Lgamma, lgamma, half, float)
ASCENDC_EACH(Log, log, half, float)
ASCENDC_EACH(Log2, log2, half, float)
ASCENDC_EACH(Log10, log10, half, float)
ASCENDC_EACH(Floor, floor, half, float)
ASCENDC_EACH(Ceil, ceil, half, float)
ASCENDC_EACH(Trunc, trunc, half, float)
ASCENDC_EACH(Round, round_even, half, float)
ASCENDC_EACH(Frac, frac, half, float)
ASCENDC_EACH(Sign, sign, half, float)
ASCENDC_EACH2(Fmod, fmod, half, float)
ASCENDC_EACH2(Power, power, half, float, int32_t)
ASCENDC_EACH2(Xor, exclusive_or, int16_t, uint16_t)

// A number to the power of each element, and each element to the power of a number.
#define ASCENDC_POWER(params, tensor, expression)                                                               \
  template <class T, bool isReuseSource = false>                                                                \
  void Power(const LocalTensor<T>& dst, params, const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t calCount, \
             ASCENDC_AT) {                                                                                      \
    static_assert(detail::one_of<T, half, float, int32_t>, "Power takes half, float, int32_t");                 \
    detail::each("Power", at, &sharedTmpBuffer, calCount, expression, dst, tensor);                             \
  }                                                                                                             \
  template <class T, bool isReuseSource = false>                                                                \
  void Power(const LocalTensor<T>& dst, params, uint32_t calCount, ASCENDC_AT) {                                \
    static_assert(detail::one_of<T, half, float, int32_t>, "Power takes half, float, int32_t");                 \
    detail::each("Power", at, nullptr, calCount, expression, dst, tensor);                                      \
  }                                                                                                             \
  template <class T, bool isReuseSource = false>                                                                \
  void Power(const LocalTensor<T>& dst, params, ASCENDC_AT) {                                                   \
    static_assert(detail::one_of<T, half, float, int32_t>, "Power takes half, float, int32_t");                 \
    detail::each("Power", at, nullptr, tensor.GetSize(), expression, dst, tensor);                              \
  }
#define ASCENDC_COMMA ,
ASCENDC_POWER(const LocalTensor<T>& base ASCENDC_COMMA const detail::Plain<T>& exponent, base,
              ([exponent](auto x) { return detail::power(x, detail::widen(exponent)); }))
ASCENDC_POWER(const detail::Plain<T>& base ASCENDC_COMMA const LocalTensor<T>& exponent, exponent,
              ([base](auto y) { return detail::power(detail::widen(base), y); }))
#undef ASCENDC_POWER
#undef ASCENDC_COMMA

// What lies beyond the number becomes the number.
#define ASCENDC_CLAMP(Name, comparison)                                                                             \
  template <class T, bool isReuseSource = false>                                                                    \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,      \
            const detail::Plain<T> scalar, uint32_t calCount, ASCENDC_AT) {                                         \
    static_assert(detail::one_of<T, half, float>, #Name " takes half, float");                                      \
    const float s = scalar;                                                                                         \
    detail::each(#Name, at, &sharedTmpBuffer, calCount, [s](float x) { return x comparison s ? s : x; }, dst, src); \
  }                                                                                                                 \
  template <class T, bool isReuseSource = false>                                                                    \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const detail::Plain<T> scalar, uint32_t calCount, \
            ASCENDC_AT) {                                                                                           \
    static_assert(detail::one_of<T, half, float>, #Name " takes half, float");                                      \
    const float s = scalar;                                                                                         \
    detail::each(#Name, at, nullptr, calCount, [s](float x) { return x comparison s ? s : x; }, dst, src);          \
  }
ASCENDC_CLAMP(ClampMax, >)
ASCENDC_CLAMP(ClampMin, <)
#undef ASCENDC_CLAMP

// Exp by a Taylor series of so many terms; here it is exact to a rounding at any level.
template <class T, uint8_t taylorExpandLevel, bool isReuseSource = false>
void Exp(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer,
         uint32_t calCount, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float>, "Exp takes half, float");
  detail::each("Exp", at, &sharedTmpBuffer, calCount, [](float x) { return std::exp(x); }, dst, src);
}

struct CumSumInfo {
  uint32_t outter = 0, inner = 0;
};
struct CumSumConfig {
  bool isLastAxis = true, isReuseSource = false, outputLastRow = false;
};
inline constexpr CumSumConfig defaultCumSumConfig = {true, false, true};

// Sums from the first to each, along the rows of [outter, inner] or down its columns; the last row is also given by itself.
template <class T, const CumSumConfig& config = defaultCumSumConfig>
void CumSum(const LocalTensor<T>& dst, const LocalTensor<T>& lastRow, const LocalTensor<T>& src,
            const LocalTensor<uint8_t>& sharedTmpBuffer, const CumSumInfo& info, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float>, "CumSum takes half, float");
  const detail::Op op("CumSum", at);
  if (uint64_t{info.inner} * sizeof(T) % 32)
    op.fail(detail::format("inner is %u: rows are whole blocks of 32 bytes", info.inner));
  detail::scratch(op, sharedTmpBuffer);
  const uint64_t n = uint64_t{info.outter} * info.inner;
  const T* a = op.reads(src, n * sizeof(T));
  T* d = op.writes(dst, n * sizeof(T));
  const uint64_t step = config.isLastAxis ? 1 : info.inner, length = config.isLastAxis ? info.inner : info.outter;
  for (uint64_t lane = 0; lane < (length ? n / length : 0); ++lane) {
    const uint64_t first = config.isLastAxis ? lane * info.inner : lane;
    float sum = 0;
    for (uint64_t i = 0; i < length; ++i) d[first + i * step] = static_cast<T>(sum += a[first + i * step]);
  }
  if (config.outputLastRow && info.outter)
    std::copy_n(d + n - info.inner, info.inner, op.writes(lastRow, info.inner * sizeof(T), "lastRow"));
}

// dst += src * scalar with a buffer of the caller's.
template <class T, class U, bool isReuseSource = false>
void Axpy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const detail::Plain<U> scalar,
          const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t calCount, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float> && (std::is_same_v<T, U> || std::is_same_v<U, half>),
                "Axpy takes half, float, or half summed up in float");
  const float s = scalar;
  detail::each("Axpy", at, &sharedTmpBuffer, calCount, [s](float d, float x) { return d + x * s; }, dst, dst, src);
}

}  // namespace AscendC
