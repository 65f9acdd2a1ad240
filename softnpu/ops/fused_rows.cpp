// See fused_rows.h.
#include "softnpu/ops/fused_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "softnpu/ops/exponential.h"
#include "softnpu/ops/processor.h"
#include "softnpu/ops/softmax_rows.h"

namespace softnpu::ops::kernels {
namespace {

// e^-x, infinite where float32 has no such number: a sigmoid ends where ATen's does, which a large factor shows.
[[gnu::always_inline]] inline float inverse_exponential(float x) {
  return -x > kMostExponent ? std::numeric_limits<float>::infinity() : exponential(-x, kMostExponent);
}
[[gnu::always_inline]] inline float sigmoid(float x) { return 1 / (1 + inverse_exponential(x)); }

// Numbers that are made and summed while they are in registers' reach. Sums of parts are added in double: rows may be wide.
constexpr int64_t kPart = 512;

}  // namespace

CLONES float rms_row(const float* x, const float* gamma, int64_t n, float eps, float* out) {
  double sum = 0;
  for (int64_t from = 0; from < n; from += kPart) sum += row_sum(x + from, std::min(kPart, n - from), x + from);
  const float r = 1 / std::sqrt(static_cast<float>(sum / static_cast<double>(n)) + eps);
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * r * gamma[i];
  return r;
}

CLONES void rms_row_gradient(const float* dy, const float* x, const float* gamma, int64_t n, float r, float* dx,
                             float* dgamma) {
  float part[kPart];
  double sum = 0;
  for (int64_t from = 0; from < n; from += kPart) {
    const int64_t count = std::min(kPart, n - from);
    for (int64_t i = 0; i < count; i++) part[i] = dy[from + i] * gamma[from + i];
    sum += row_sum(part, count, x + from);
  }
  const float mean = static_cast<float>(sum * r / static_cast<double>(n));
  for (int64_t i = 0; i < n; i++) {
    const float normed = x[i] * r, g = dy[i];
    dgamma[i] += g * normed;
    dx[i] = (g * gamma[i] - normed * mean) * r;
  }
}

CLONES void rotary_row(const float* x, const float* cos, const float* sin, int64_t half, float* out) {
  float* __restrict first = out, * __restrict second = out + half;
  for (int64_t i = 0; i < half; i++) {
    const float a = x[i], b = x[i + half];
    first[i] = a * cos[i] - b * sin[i];
    second[i] = b * cos[i + half] + a * sin[i + half];
  }
}

CLONES void rotary_row_gradient(const float* dy, const float* cos, const float* sin, int64_t half, float* dx) {
  float* __restrict first = dx, * __restrict second = dx + half;
  for (int64_t i = 0; i < half; i++) {
    const float a = dy[i], b = dy[i + half];
    first[i] = a * cos[i] + b * sin[i + half];
    second[i] = b * cos[i + half] - a * sin[i];
  }
}

CLONES void rotary_angle_gradient(const float* dy, const float* x, int64_t half, float* dcos, float* dsin) {
  float* __restrict cos1 = dcos, * __restrict cos2 = dcos + half, * __restrict sin1 = dsin, * __restrict sin2 = dsin + half;
  for (int64_t i = 0; i < half; i++) {
    const float a = dy[i], b = dy[i + half];
    cos1[i] += a * x[i];
    cos2[i] += b * x[i + half];
    sin1[i] -= a * x[i + half];
    sin2[i] += b * x[i];
  }
}

CLONES void swiglu_row(const float* a, const float* b, int64_t n, float* out) {
  for (int64_t i = 0; i < n; i++) out[i] = a[i] / (1 + inverse_exponential(a[i])) * b[i];
}

CLONES void swiglu_row_gradient(const float* dy, const float* a, const float* b, int64_t n, float* da, float* db) {
  for (int64_t i = 0; i < n; i++) {
    const float g = dy[i], x = a[i], y = b[i], s = sigmoid(x);
    da[i] = g * y * s * (1 + x * (1 - s));
    db[i] = g * (x * s);
  }
}

}  // namespace softnpu::ops::kernels
