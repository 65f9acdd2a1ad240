// See softmax_rows.h.
#include "softnpu/ops/softmax_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "softnpu/ops/exponential.h"
#include "softnpu/ops/processor.h"
#include "softnpu/ops/register.h"

namespace softnpu::ops::kernels {
namespace {

// A score so far below the greatest that it has no part: -inf is one that is hidden.
template <class T>
[[gnu::always_inline]] inline T portion(T x) {
  if constexpr (std::is_same_v<T, double>) return exponential(x);
  return x < T(-87) ? T(0) : exponential(x);
}

// With integers: of a choice of floats by a byte the compiler makes no vectors.
template <class T>
[[gnu::always_inline]] inline void hide(T* __restrict row, int64_t n, const bool* __restrict hidden) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  constexpr auto kHidden = std::bit_cast<Bits>(-std::numeric_limits<T>::infinity());
  const auto* bytes = reinterpret_cast<const uint8_t*>(hidden);
  for (int64_t i = 0; i < n; i++) {
    const Bits all = -static_cast<Bits>(bytes[i] != 0);
    row[i] = std::bit_cast<T>((std::bit_cast<Bits>(row[i]) & ~all) | (kHidden & all));
  }
}

template <class T>
[[gnu::always_inline]] inline void multiply(T* __restrict row, int64_t n, const T* __restrict with) {
  for (int64_t i = 0; i < n; i++) row[i] *= with[i];
}

// A sum of interleaved parts, which the compiler keeps in registers.
constexpr int64_t kLanes = 16;
template <class T, class F>
[[gnu::always_inline]] inline T summed(int64_t n, F&& f) {
  T parts[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t k = 0; k < kLanes; k++) parts[k] += f(i + k);
  }
  T rest = 0;
  for (; i < n; i++) rest += f(i);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t k = 0; k < half; k++) parts[k] += parts[k + half];
  }
  return parts[0] + rest;
}

// With the compiler's vectors: it makes none of a loop that chooses the larger.
template <class T>
[[gnu::always_inline]] inline T largest(const T* row, int64_t n, T floor) {
  using V = typename Register<T>::Type;
  constexpr int64_t kWidth = sizeof(V) / sizeof(T);
  T found = floor;
  int64_t i = 0;
  if (n >= kWidth) {
    V parts = V{} + floor;
    for (; i + kWidth <= n; i += kWidth) {
      const V next = *reinterpret_cast<const V*>(row + i);
      parts = next > parts ? next : parts;
    }
    for (int64_t k = 0; k < kWidth; k++) found = std::max<T>(found, parts[k]);
  }
  for (; i < n; i++) found = std::max(found, row[i]);
  return found;
}

template <class T>
[[gnu::always_inline]] inline RowStatistic<T> softmax(T* __restrict row, int64_t n, T floor) {
  const T found = largest(row, n, floor);
  const T maximum = found == -std::numeric_limits<T>::infinity() ? T{0} : found;
  for (int64_t i = 0; i < n; i++) row[i] = portion(row[i] - maximum);
  return {maximum, summed<T>(n, [&](int64_t i) { return row[i]; })};
}

template <class T>
[[gnu::always_inline]] inline T again(T* __restrict row, int64_t n, RowStatistic<T> from) {
  const T divisor = from.sum == 0 ? T{1} : from.sum, factor = 1 / divisor;
  for (int64_t i = 0; i < n; i++) row[i] = portion(row[i] - from.maximum) * factor;
  return divisor * summed<T>(n, [&](int64_t i) { return row[i]; });
}

template <class T>
[[gnu::always_inline]] inline T mean(const T* __restrict row, int64_t n, const T* __restrict kept, T* __restrict d,
                                     T* __restrict applied) {
  if (!kept) return summed<T>(n, [&](int64_t i) { return d[i] * row[i]; });
  return summed<T>(n, [&](int64_t i) {
    applied[i] = row[i] * kept[i];
    return (d[i] *= kept[i]) * row[i];
  });
}

template <class T>
[[gnu::always_inline]] inline void gradient(const T* __restrict row, int64_t n, T mean, T* __restrict d) {
  for (int64_t i = 0; i < n; i++) d[i] = (d[i] - mean) * row[i];
}

template <class T>
[[gnu::always_inline]] inline T sum(const T* __restrict row, int64_t n, const T* __restrict with) {
  if (!with) return summed<T>(n, [&](int64_t i) { return row[i]; });
  return summed<T>(n, [&](int64_t i) { return row[i] * with[i]; });
}

template <class T>
[[gnu::always_inline]] inline void log_gradient(const T* __restrict row, int64_t n, T factor, T share,
                                                const T* __restrict shares, T* __restrict out) {
  for (int64_t i = 0; i < n; i++) out[i] = portion(row[i]) * factor;
  for (int64_t i = 0; shares && i < n; i++) out[i] -= shares[i] * share;
}

}  // namespace

CLONES void hide_row(float* row, int64_t n, const bool* hidden) { hide(row, n, hidden); }
CLONES void hide_row(double* row, int64_t n, const bool* hidden) { hide(row, n, hidden); }
CLONES void multiply_row(float* row, int64_t n, const float* with) { multiply(row, n, with); }
CLONES void multiply_row(double* row, int64_t n, const double* with) { multiply(row, n, with); }
CLONES RowStatistic<float> softmax_row(float* row, int64_t n, float floor) { return softmax(row, n, floor); }
CLONES RowStatistic<double> softmax_row(double* row, int64_t n, double floor) { return softmax(row, n, floor); }
CLONES float softmax_row_again(float* row, int64_t n, RowStatistic<float> from) { return again(row, n, from); }
CLONES double softmax_row_again(double* row, int64_t n, RowStatistic<double> from) { return again(row, n, from); }
CLONES float softmax_row_mean(const float* row, int64_t n, const float* kept, float* d, float* applied) {
  return mean(row, n, kept, d, applied);
}
CLONES double softmax_row_mean(const double* row, int64_t n, const double* kept, double* d, double* applied) {
  return mean(row, n, kept, d, applied);
}
CLONES void softmax_row_gradient(const float* row, int64_t n, float mean, float* d) { gradient(row, n, mean, d); }
CLONES void softmax_row_gradient(const double* row, int64_t n, double mean, double* d) { gradient(row, n, mean, d); }

CLONES float row_sum(const float* row, int64_t n, const float* with) { return sum(row, n, with); }
CLONES double row_sum(const double* row, int64_t n, const double* with) { return sum(row, n, with); }
CLONES void log_softmax_row_gradient(const float* row, int64_t n, float factor, float share, const float* shares,
                                     float* out) {
  log_gradient(row, n, factor, share, shares, out);
}
CLONES void log_softmax_row_gradient(const double* row, int64_t n, double factor, double share, const double* shares,
                                     double* out) {
  log_gradient(row, n, factor, share, shares, out);
}

}  // namespace softnpu::ops::kernels
