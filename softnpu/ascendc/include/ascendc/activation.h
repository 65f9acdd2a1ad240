// High-level activations: Sigmoid, Silu, Swish, Gelu and its faster kin, SwiGLU, GeGLU, ReGlu. Called by kernels.
// What it is not: exact to the hardware's last bit; computed in float, rounded once.
#pragma once

#include "ascendc/each.h"

namespace AscendC {
namespace detail {

inline float swish(float x, float beta) { return x / (1 + std::exp(-beta * x)); }
inline float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
inline float silu(float x) { return swish(x, 1); }
// Gelu by tanh, which is x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).
inline float gelu(float x) { return x / (1 + std::exp(-1.5957691216f * (x + 0.044715f * x * x * x))); }
inline float faster_gelu(float x) { return swish(x, 1.702f); }
// Gelu by a parabola in place of the error function, whose half it is: constants of CANN's formula.
inline float faster_gelu_v2(float x) {
  const float away = std::min(std::fabs(0.7071f * x), 1.769f) - 1.769f;
  return x * (std::copysign(-0.1444f * away * away + 0.5f, x) + 0.5f);
}
inline float geglu(float x, float y) { return x * gelu(y); }
inline float reglu(float x, float y) { return x * (y > 0 ? y : 0); }

}  // namespace detail

ASCENDC_EACH(Sigmoid, sigmoid, half, float)
ASCENDC_EACH2(GeGLU, geglu, half, float)
ASCENDC_EACH2(ReGlu, reglu, half, float)

template <class T, bool isReuseSource = false>
void Silu(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float>, "Silu takes half, float");
  detail::each("Silu", at, nullptr, dataSize, detail::silu, dst, src);
}
// x * sigmoid(scalarValue * x)
template <class T, bool isReuseSource = false>
void Swish(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize, const detail::Plain<T> scalarValue,
           ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float>, "Swish takes half, float");
  const float beta = scalarValue;
  detail::each("Swish", at, nullptr, dataSize, [beta](float x) { return detail::swish(x, beta); }, dst, src);
}

#define ASCENDC_GELU(Name, f)                                                                                  \
  template <class T, bool highPrecision = false, bool highPerformance = false>                                 \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LocalTensor<uint8_t>& sharedTmpBuffer, \
            uint32_t dataSize, ASCENDC_AT) {                                                                   \
    static_assert(detail::one_of<T, half, float>, #Name " takes half, float");                                 \
    detail::each(#Name, at, &sharedTmpBuffer, dataSize, detail::f, dst, src);                                  \
  }                                                                                                            \
  template <class T, bool highPrecision = false, bool highPerformance = false>                                 \
  void Name(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t dataSize, ASCENDC_AT) {             \
    static_assert(detail::one_of<T, half, float>, #Name " takes half, float");                                 \
    detail::each(#Name, at, nullptr, dataSize, detail::f, dst, src);                                           \
  }
ASCENDC_GELU(Gelu, gelu)
ASCENDC_GELU(FasterGelu, faster_gelu)
ASCENDC_GELU(FasterGeluV2, faster_gelu_v2)
#undef ASCENDC_GELU

// src0 * Swish(src1)
template <class T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
            const LocalTensor<uint8_t>& sharedTmpBuffer, uint32_t calCount, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float>, "SwiGLU takes half, float");
  const auto f = [beta = scalarValue](float x, float y) { return x * detail::swish(y, beta); };
  detail::each("SwiGLU", at, &sharedTmpBuffer, calCount, f, dst, src0, src1);
}
template <class T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
            const LocalTensor<uint8_t>& sharedTmpBuffer, ASCENDC_AT) {
  SwiGLU<T, isReuseSource>(dst, src0, src1, scalarValue, sharedTmpBuffer, src0.GetSize(), at);
}
template <class T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
            uint32_t calCount, ASCENDC_AT) {
  static_assert(detail::one_of<T, half, float>, "SwiGLU takes half, float");
  const auto f = [beta = scalarValue](float x, float y) { return x * detail::swish(y, beta); };
  detail::each("SwiGLU", at, nullptr, calCount, f, dst, src0, src1);
}
template <class T, bool isReuseSource = false>
void SwiGLU(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const LocalTensor<T>& src1, const float& scalarValue,
            ASCENDC_AT) {
  SwiGLU<T, isReuseSource>(dst, src0, src1, scalarValue, src0.GetSize(), at);
}

}  // namespace AscendC
