// Gated activations: one half of the tensor, activated, times the other. Computed in fp32 for 16-bit types.
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/where.h>

#include "softnpu/ops/in_halves.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

std::array<Tensor, 2> halves(const Tensor& x, int64_t dim) { return in_halves(wide(x), dim); }

}  // namespace

void swiglu(const Tensor& x, int64_t dim, Tensor& out) {
  const auto part = halves(x, dim);
  put(out, at::silu(part[0]).mul_(part[1]));
}

void swiglu_backward(const Tensor& gradient, const Tensor& x, int64_t dim, Tensor& grad_x) {
  const auto part = halves(x, dim);
  const Tensor dy = wide(gradient);
  put(grad_x, at::cat({at::silu_backward(dy * part[1], part[0]), dy * at::silu(part[0])}, dim));
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
