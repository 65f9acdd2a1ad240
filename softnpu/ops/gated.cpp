// Gated activations: one half of the tensor, activated, times the other. Computed in fp32 for 16-bit types.
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/where.h>

#include "softnpu/ops/fused_rows.h"
#include "softnpu/ops/in_halves.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

std::array<Tensor, 2> halves(const Tensor& x, int64_t dim) { return in_halves(wide(x), dim); }

// The halves of a contiguous tensor of fp32 along `dim`, row by row: work(first half, from here, its numbers).
template <class F>
void each_gated(const Tensor& x, int64_t dim, F&& work) {
  const int64_t at = dim < 0 ? dim + x.dim() : dim;
  const int64_t n = c10::multiply_integers(x.sizes().slice(at)) / 2;
  at::parallel_for(0, x.numel() / 2, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t count = std::min(n - i % n, end - i);
      work(i + i / n * n, n, count, i);
      i += count;
    }
  });
}

}  // namespace

void swiglu(const Tensor& x, int64_t dim, Tensor& out) {
  const Tensor value = wide(x);
  const auto part = in_halves(value, dim);
  if (value.scalar_type() != at::kFloat || x.numel() == 0) return put(out, at::silu(part[0]).mul_(part[1]));
  const Tensor from = value.contiguous(), values = fp32_room(out, part[0].sizes(), {from});
  const auto* in = from.const_data_ptr<float>();
  auto* to = values.mutable_data_ptr<float>();
  each_gated(from, dim, [&](int64_t first, int64_t half, int64_t n, int64_t i) {
    swiglu_row(in + first, in + first + half, n, to + i);
  });
  put(out, values);
}

void swiglu_backward(const Tensor& gradient, const Tensor& x, int64_t dim, Tensor& grad_x) {
  const Tensor value = wide(x), dy = wide(gradient);
  const auto part = in_halves(value, dim);
  if (dy.sizes() != part[0].sizes() || dy.scalar_type() != at::kFloat || value.scalar_type() != at::kFloat ||
      x.numel() == 0) {
    put(grad_x, at::cat({at::silu_backward(dy * part[1], part[0]), dy * at::silu(part[0])}, dim));
    return;
  }
  const Tensor from = value.contiguous(), d = dy.contiguous(), values = fp32_room(grad_x, x.sizes(), {from, d});
  const auto *in = from.const_data_ptr<float>(), *dys = d.const_data_ptr<float>();
  auto* to = values.mutable_data_ptr<float>();
  each_gated(from, dim, [&](int64_t first, int64_t half, int64_t n, int64_t i) {
    swiglu_row_gradient(dys + i, in + first, in + first + half, n, to + first, to + first + half);
  });
  put(grad_x, values);
}

void clipped_swiglu(const Tensor& x, const OptionalTensor& groups, int64_t dim, double alpha, double limit, double bias,
                    bool interleaved, Tensor& out) {
  const int64_t at = dim < 0 ? dim + x.dim() : dim;
  const int64_t half = x.size(at) / 2;
  const Tensor values = wide(x);
  const Tensor pairs =
      interleaved ? values.unflatten(at, {half, 2}) : values.unflatten(at, {2, half}).transpose(at, at + 1);
  const Tensor a = pairs.select(at + 1, 0).clamp_max(limit), b = pairs.select(at + 1, 1).clamp(-limit, limit);
  Tensor y = a * at::sigmoid(a * alpha) * (b + bias);
  if (passed(groups)) {  // rows past the groups are not computed
    const int64_t rows = item(groups->sum()).to<int64_t>();
    if (rows < y.size(0)) y.narrow(0, rows, y.size(0) - rows).zero_();
  }
  put(out, y);
}

void geglu(const Tensor& x, int64_t dim, std::string_view approximate, bool left, Tensor& out, Tensor& gelu) {
  const auto part = halves(x, dim);
  const Tensor activated = at::gelu(part[left ? 0 : 1], approximate);
  put(out, activated * part[left ? 1 : 0]);
  put(gelu, activated);
}

void geglu_backward(const Tensor& gradient, const Tensor& x, const Tensor& gelu, int64_t dim,
                    std::string_view approximate, bool left, Tensor& grad_x) {
  const auto part = halves(x, dim);
  const Tensor dy = wide(gradient);
  const Tensor through = at::gelu_backward(dy * part[left ? 1 : 0], part[left ? 0 : 1], approximate);
  const Tensor plain = dy * wide(gelu);
  put(grad_x, left ? at::cat({through, plain}, dim) : at::cat({plain, through}, dim));
}

// The slope of each negative number is drawn, and kept in `noise` for the gradient: 1 elsewhere.
void rrelu(const Tensor& x, Tensor& noise, double lower, double upper, bool training, int64_t seed, int64_t offset,
           Tensor& out) {
  const Tensor negative = x.le(0);
  if (!training) {
    put(out, at::where(negative, x * num((lower + upper) / 2), x));
    return;
  }
  uniform(noise, lower, upper, seed, offset);
  noise.masked_fill_(negative.logical_not(), 1);
  put(out, x * noise);
}

}  // namespace softnpu::ops::kernels
