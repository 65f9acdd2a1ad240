// Rows of operators that ATen would compute in many passes over memory: RMS normalization, rotation by an angle, a gated activation. fp32,
// each in one or two passes that the compiler vectorizes. Sums run in one order whatever the processor. Called by
// norm.cpp, rotary.cpp and gated.cpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <initializer_list>

#include "softnpu/ops/place.h"

namespace softnpu::ops::kernels {

// Room for a result of fp32: the output itself, if it is that and shares no memory with what is read; put() copies from any other.
inline at::Tensor fp32_room(const at::Tensor& out, at::IntArrayRef sizes, std::initializer_list<at::Tensor> inputs) {
  bool fits = out.defined() && out.scalar_type() == at::kFloat && out.is_contiguous() && out.sizes() == sizes;
  for (const at::Tensor& t : inputs) fits = fits && !overlaps(t, out);
  return fits ? out : at::empty(sizes, at::kFloat);
}

// out = x * r * gamma; returns r = 1 / sqrt(mean(x ** 2) + eps).
float rms_row(const float* x, const float* gamma, int64_t n, float eps, float* out);
// The row's gradient, and what it adds to that of gamma.
void rms_row_gradient(const float* dy, const float* x, const float* gamma, int64_t n, float r, float* dx,
                      float* dgamma);

// Columns i and i + half are a pair: out = x * cos + (-second half, first half) * sin. These outputs share no memory with an input.
void rotary_row(const float* x, const float* cos, const float* sin, int64_t half, float* out);
void rotary_row_gradient(const float* dy, const float* cos, const float* sin, int64_t half, float* dx);
// What the row adds to the gradients of cosine and sine.
void rotary_angle_gradient(const float* dy, const float* x, int64_t half, float* dcos, float* dsin);

// out = silu(a) * b.
void swiglu_row(const float* a, const float* b, int64_t n, float* out);
void swiglu_row_gradient(const float* dy, const float* a, const float* b, int64_t n, float* da, float* db);

}  // namespace softnpu::ops::kernels
