// Operators that move elements, and the small linear-algebra and activation glue that has no out variant.
#include <ATen/ops/_chunk_cat.h>
#include <ATen/ops/_prelu_kernel.h>
#include <ATen/ops/_prelu_kernel_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linalg_cross.h>
#include <ATen/ops/linalg_cross_cpu_dispatch.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/range_cpu_dispatch.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/WrapDimMinimal.h>

#include <cmath>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void split(const Tensor& self, IntArrayRef sizes, int64_t dim, c10::SmallVectorImpl<Tensor>& out) {
  TORCH_CHECK(sizes.size() == out.size(), "split: ", sizes.size(), " sizes for ", out.size(), " outputs");
  int64_t start = 0;
  for (size_t i = 0; i < out.size(); i++) {
    at::native::copy_(out[i], self.narrow(dim, start, sizes[i]), false);
    start += sizes[i];
  }
}

void one_hot(const Tensor& self, int64_t classes, const Tensor& on, const Tensor& off, int64_t axis, Tensor& out) {
  const int64_t at = c10::maybe_wrap_dim(axis, self.dim() + 1);
  std::vector<int64_t> shape(self.dim() + 1, 1);
  shape[at] = classes;
  Tensor hit = self.unsqueeze(at).eq(at::arange(classes, at::TensorOptions().dtype(at::kLong)).view(shape));
  put(out, at::where(hit, on.reshape({}), off.reshape({})));
}

void cumsum_v2(const Tensor& self, int64_t dim, bool exclusive, bool reverse, Tensor& out) {
  Tensor x = is_16_bit(self) ? self.to(at::kFloat) : self;
  if (reverse) x = x.flip(dim);
  Tensor sums = x.cumsum(dim, c10::promoteTypes(x.scalar_type(), out.scalar_type()));
  if (exclusive) sums = sums - x;
  put(out, reverse ? sums.flip(dim) : sums);
}

void range(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  const bool integers = c10::isIntegralType(out.scalar_type(), true);
  TORCH_CHECK(integers ? step.to<int64_t>() != 0 : step.to<double>() != 0, "the step is 0");
  TORCH_CHECK(std::abs(end.to<double>() - start.to<double>()) < 9e18, "from ", start, " to ", end,
              " is more than an integer counts");
  at::cpu::range_outf(start, end, step, out);
}

void chunk_cat(at::TensorList tensors, int64_t dim, int64_t chunks, Tensor& out) {
  TORCH_CHECK(dim >= 0 && dim < out.dim() && out.size(dim) == chunks, chunks, " chunks do not make an output of ",
              out.sizes());
  put(out, at::_chunk_cat(tensors, dim, chunks));
}

// A 16-bit type may hold the difference of two products and not the products.
void cross(const Tensor& self, const Tensor& other, int64_t dim, Tensor& out) {
  if (is_16_bit(out)) {
    put(out, at::linalg_cross(wide(self), wide(other), dim));
  } else {
    at::cpu::linalg_cross_outf(self, other, dim, out);
  }
}

Tensor softmax_mask(const Tensor& mask, bool triangle) {
  return triangle ? at::ones_like(mask, at::kBool).triu(1) : mask.to(at::kBool);
}

void svd(const Tensor& self, bool full, bool vectors, Tensor& sigma, Tensor& u, Tensor& v) {
  if (!vectors) return put(sigma, at::linalg_svdvals(self));
  auto [left, values, right] = at::linalg_svd(self, full);
  put(sigma, values);
  put(u, left);
  put(v, right.mH());  // input = u sigma v^H
}

Tensor fast_gelu_backward(const Tensor& gradient, const Tensor& x) {
  // y = x * s(1.702 x)
  const Tensor z = wide(x) * 1.702, s = z.sigmoid();
  return wide(gradient) * (s + z * s * (1 - s));
}

namespace {

// One weight a channel, channels in dimension 1; or one for all.
Tensor channel_weight(const Tensor& self, const Tensor& weight) {
  TORCH_CHECK(weight.numel() == 1 || self.dim() > 0, "prelu: ", weight.numel(), " weights for a number");
  if (weight.numel() == 1 || weight.dim() == self.dim()) return weight.numel() == 1 ? weight.reshape({}) : weight;
  std::vector<int64_t> shape(self.dim(), 1);
  shape[self.dim() > 1 ? 1 : 0] = weight.numel();
  return weight.reshape(shape);
}

}  // namespace

Tensor prelu(const Tensor& self, const Tensor& weight) {
  const Tensor w = channel_weight(self, weight);
  if (self.is_floating_point() && self.scalar_type() == w.scalar_type()) return at::_prelu_kernel(self, w);
  return at::where(self > 0, self, self * w);
}

void prelu_backward(const Tensor& gradient, const Tensor& self, const Tensor& weight, Tensor& grad_input,
                    Tensor& grad_weight) {
  Tensor w = channel_weight(self, weight);
  put(grad_input, at::where(self > 0, gradient, gradient * w));
  Tensor each = at::where(self > 0, at::zeros_like(self), gradient * self);
  put(grad_weight, w.dim() == 0 ? each.sum() : each.sum_to_size(w.sizes()));
}

}  // namespace softnpu::ops::kernels
