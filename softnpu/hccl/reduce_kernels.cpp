// The arithmetic of reduce.h, compiled once for each instruction set with HCCL_TABLE naming the table. Nothing here may be an inline
// function of another header: the linker would keep one copy, perhaps one that this processor cannot run.
#include <stdint.h>
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "softnpu/hccl/reduce.h"

namespace softnpu::hccl {
namespace {

constexpr size_t kBlock = 2048;  // elements: an fp32 block is 8 KiB, so the accumulator stays in the first-level cache

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

// How a type is held while it is added up: Wide is the accumulator's element.
template <class T>
struct Kind {
  using Wide = T;
  static void widen(const T* from, T* to, size_t n) { memcpy(to, from, n * sizeof(T)); }
  static void narrow(const T* from, T* to, size_t n) { memcpy(to, from, n * sizeof(T)); }
};

inline float as_float(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
inline uint32_t as_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}

template <>
struct Kind<BF16> {
  using Wide = float;
  static void widen(const BF16* from, float* to, size_t n) {
    for (size_t i = 0; i < n; ++i) to[i] = as_float(static_cast<uint32_t>(from[i].bits) << 16);
  }
  static void narrow(const float* from, BF16* to, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      const uint32_t b = as_bits(from[i]);
      const uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
      const bool nan = (b & 0x7fffffffu) > 0x7f800000u;
      to[i].bits = static_cast<uint16_t>(nan ? (b >> 16) | 0x40u : rounded);
    }
  }
};

inline float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u) return as_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // Scaling by 2^112 moves the exponent and makes subnormals normal, exactly.
  return as_float(sign | as_bits(as_float(magnitude << 13) * 0x1p112f));
}
inline uint16_t float_to_half(float f) {
  const uint32_t b = as_bits(f), sign = (b >> 16) & 0x8000u;
  uint32_t a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (a >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 2^16 or more
  if (a <
      0x38800000u)  // below 2^-14: adding 0.5 leaves a multiple of 2^-24, rounded to nearest even by the addition itself
    return static_cast<uint16_t>(sign | (as_bits(as_float(a) + 0.5f) - 0x3f000000u));
  a += 0xc8000000u + 0xfffu + ((a >> 13) & 1u);
  return static_cast<uint16_t>(sign | (a >> 13));
}

template <>
struct Kind<F16> {
  using Wide = float;
  static void widen(const F16* from, float* to, size_t n) {
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
    for (; i < n; ++i) to[i] = half_to_float(from[i].bits);
  }
  static void narrow(const float* from, F16* to, size_t n) {
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                       _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; ++i) to[i].bits = float_to_half(from[i]);
  }
};

// Signed arithmetic that wraps, without undefined behaviour. int16 products are made in 32 bits for the same reason.
template <class T>
struct Unsigned {
  using type = T;
};
template <>
struct Unsigned<int8_t> {
  using type = uint8_t;
};
template <>
struct Unsigned<int16_t> {
  using type = uint32_t;
};
template <>
struct Unsigned<uint16_t> {
  using type = uint32_t;
};
template <>
struct Unsigned<int32_t> {
  using type = uint32_t;
};
template <>
struct Unsigned<int64_t> {
  using type = uint64_t;
};

struct Sum {
  template <class T>
  static T of(T a, T b) {
    using U = typename Unsigned<T>::type;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct Prod {
  template <class T>
  static T of(T a, T b) {
    using U = typename Unsigned<T>::type;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <class T>
  static T of(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

// Up to four inputs in one pass, from left to right; `to` may be any of them.
template <class Op, class T>
void combine(const T* const* in, size_t n, T* to, size_t count) {
  const T *a = in[0], *b = in[1];
  switch (n) {
    case 2:
      for (size_t i = 0; i < count; ++i) to[i] = Op::template of<T>(a[i], b[i]);
      return;
    case 3: {
      const T* c = in[2];
      for (size_t i = 0; i < count; ++i) to[i] = Op::template of<T>(Op::template of<T>(a[i], b[i]), c[i]);
      return;
    }
    default: {
      const T *c = in[2], *d = in[3];
      for (size_t i = 0; i < count; ++i)
        to[i] = Op::template of<T>(Op::template of<T>(Op::template of<T>(a[i], b[i]), c[i]), d[i]);
    }
  }
}

template <class Op, class T>
void accumulate(T* sum, const T* next, size_t count) {
  const T* pair[2] = {sum, next};
  combine<Op>(pair, 2, sum, count);
}

template <class T, class Op>
void reduce(const void* const* inputs, size_t n, void* const* outputs, size_t m, size_t count) noexcept {
  using Wide = typename Kind<T>::Wide;
  constexpr bool kSame = sizeof(Wide) == sizeof(T);
  alignas(64) Wide sum[kBlock], next[kSame ? 1 : kBlock];
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t block = count - at < kBlock ? count - at : kBlock;
    auto in = [&](size_t i) { return static_cast<const T*>(inputs[i]) + at; };
    T* first = static_cast<T*>(outputs[0]) + at;
    if constexpr (kSame) {
      if (n == 1) {
        if (first != in(0)) memcpy(first, in(0), block * sizeof(T));
      } else {
        const T* group[4] = {in(0), in(1)};
        size_t held = 2;
        for (size_t i = 2; i < n; ++i) {
          if (held == 4) combine<Op>(group, held, sum, block), group[0] = sum, held = 1;
          group[held++] = in(i);
        }
        combine<Op>(group, held, first, block);
      }
    } else {
      Kind<T>::widen(in(0), sum, block);
      for (size_t i = 1; i < n; ++i) {
        Kind<T>::widen(in(i), next, block);
        accumulate<Op>(sum, next, block);
      }
      Kind<T>::narrow(sum, first, block);
    }
    for (size_t i = 1; i < m; ++i) {
      T* other = static_cast<T*>(outputs[i]) + at;
      if (other != first) memcpy(other, first, block * sizeof(T));
    }
  }
}

// The steps of SplitReduce for 16-bit floats; what the first input and the output hold tells them apart.
enum class Step { kBegin, kExtend, kEnd };

template <class T, class Op, Step step>
void split(const void* const* inputs, size_t n, void* const* outputs, size_t m, size_t count) noexcept {
  alignas(64) float sum[kBlock], next[kBlock];
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t block = count - at < kBlock ? count - at : kBlock;
    if (step == Step::kBegin)
      Kind<T>::widen(static_cast<const T*>(inputs[0]) + at, sum, block);
    else
      memcpy(sum, static_cast<const float*>(inputs[0]) + at, block * sizeof(float));
    for (size_t i = 1; i < n; ++i) {
      Kind<T>::widen(static_cast<const T*>(inputs[i]) + at, next, block);
      accumulate<Op>(sum, next, block);
    }
    if (step != Step::kEnd) {
      memcpy(static_cast<float*>(outputs[0]) + at, sum, block * sizeof(float));
      continue;
    }
    T* first = static_cast<T*>(outputs[0]) + at;
    Kind<T>::narrow(sum, first, block);
    for (size_t i = 1; i < m; ++i) memcpy(static_cast<T*>(outputs[i]) + at, first, block * sizeof(T));
  }
}

#define STEPS(T, step) {split<T, Sum, step>, split<T, Prod, step>, split<T, Max, step>, split<T, Min, step>}
#define STEP(step) {STEPS(F16, step), STEPS(BF16, step)}
#define ROW(T) {reduce<T, Sum>, reduce<T, Prod>, reduce<T, Max>, reduce<T, Min>}
#define NONE {nullptr, nullptr, nullptr, nullptr}

}  // namespace

// In the order of HcclDataType.
extern const ReduceTable HCCL_TABLE = {
    {ROW(int8_t), ROW(int16_t), ROW(int32_t), ROW(F16), ROW(float), ROW(int64_t), ROW(uint64_t), ROW(uint8_t),
     ROW(uint16_t), ROW(uint32_t), ROW(double), ROW(BF16), NONE, NONE, NONE, NONE},
    STEP(Step::kBegin),
    STEP(Step::kExtend),
    STEP(Step::kEnd)};

}  // namespace softnpu::hccl
