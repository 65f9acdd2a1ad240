// See slices.h.
#include "softnpu/ops/slices.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

bool bit(int64_t mask, size_t i) { return i < 63 && (mask >> i & 1) != 0; }

// The elements of one dimension, from `from` (one that is not there: the first that is) to before `to`.
Tensor places(int64_t size, int64_t from, int64_t to, int64_t step, bool from_edge, bool to_edge) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto inside = [&](int64_t i) { return std::clamp(i < 0 ? i + size : i, low, high); };
  const int64_t first = from_edge ? (step > 0 ? low : high) : inside(from);
  const int64_t last = to_edge ? (step > 0 ? high : low) : inside(to);
  if (step > 0 ? first >= last : first <= last) return at::arange(0, at::kLong);
  return at::arange(first, last, step, at::kLong);
}

}  // namespace

void strided_slice(const Tensor& x, IntArrayRef begin, IntArrayRef end, IntArrayRef strides, const SliceMasks& masks,
                   Tensor& out) {
  const char* const op = "aclnnStridedSlice";
  const size_t count = begin.size();
  TORCH_CHECK(end.size() == count && strides.size() == count, op, ": begin, end and strides have ", count, ", ",
              end.size(), " and ", strides.size(), " numbers");
  int64_t ellipses = 0, added = 0;
  for (size_t i = 0; i < count; i++) {
    if (bit(masks.ellipsis, i)) {
      ellipses++;
    } else if (bit(masks.added, i)) {
      added++;
    }
  }
  TORCH_CHECK(ellipses <= 1, op, ": ellipsisMask ", masks.ellipsis, " has more than one bit");
  const int64_t skipped = x.dim() - (static_cast<int64_t>(count) - ellipses - added);
  TORCH_CHECK(skipped >= 0, op, ": ", x.dim() - skipped, " dimensions are sliced, self has ", x.dim());
  Tensor y = x;
  int64_t dim = 0;
  for (size_t i = 0; i < count; i++) {
    if (bit(masks.ellipsis, i)) {
      dim += skipped;
    } else if (bit(masks.added, i)) {
      y = y.unsqueeze(dim++);
    } else if (bit(masks.taken, i)) {
      const int64_t size = y.size(dim), place = begin[i] < 0 ? begin[i] + size : begin[i];
      TORCH_CHECK(place >= 0 && place < size, op, ": begin ", begin[i], " is outside dimension ", dim, " of ", size);
      y = y.select(dim, place);
    } else {
      TORCH_CHECK(strides[i] != 0, op, ": stride ", i, " is 0");
      y = y.index_select(dim,
                         places(y.size(dim), begin[i], end[i], strides[i], bit(masks.begin, i), bit(masks.end, i)));
      dim++;
    }
  }
  TORCH_CHECK(y.sizes() == out.sizes(), op, ": out is ", out.sizes(), ", the slice ", y.sizes());
  put(out, y);
}

void repeat_interleave_backward(const Tensor& gradient, const Tensor& repeats, int64_t dim, Tensor& out) {
  const char* const op = "aclnnRepeatInterleaveGrad";
  const int64_t along = at::maybe_wrap_dim(dim, gradient.dim());
  if (out.dim() == 0 || gradient.dim() == 0) return put(out, wide(gradient).sum());
  const int64_t slices = out.size(along);
  const Tensor counts = repeats.to(at::kLong).flatten();
  TORCH_CHECK(counts.numel() == 1 || counts.numel() == slices, op, ": repeats has ", counts.numel(), " numbers for ",
              slices, " slices");
  TORCH_CHECK(counts.ge(0).all().item<bool>(), op, ": repeats has a negative number");
  const Tensor each = counts.expand({slices});
  TORCH_CHECK(each.sum().item<int64_t>() == gradient.size(along), op, ": repeats adds up to ",
              each.sum().item<int64_t>(), ", yGrad has ", gradient.size(along));
  const Tensor owner = at::arange(slices, at::kLong).repeat_interleave(each.contiguous());
  const Tensor value = wide(gradient);
  put(out, at::zeros(out.sizes(), value.options()).index_add_(along, owner, value));
}

namespace {

void check_convolution(const char* op, const Tensor& x, const Tensor& weight, const OptionalTensor& mask) {
  TORCH_CHECK(x.dim() == 3 && weight.dim() == 2 && weight.size(1) == x.size(2), op, ": x ", x.sizes(), " and weight ",
              weight.sizes(), " are not [S, B, H] and [W, H]");
  TORCH_CHECK(!passed(mask) || (mask->dim() == 2 && mask->size(0) == x.size(1) && mask->size(1) == x.size(0)), op,
              ": mask is not [", x.size(1), ", ", x.size(0), "]");
}

Tensor masked(const Tensor& t, const OptionalTensor& mask) {
  return passed(mask) ? wide(t) * wide(mask->t()).unsqueeze(2) : wide(t);
}

}  // namespace

void causal_convolution(const Tensor& x, const Tensor& weight, const OptionalTensor& mask, Tensor& out) {
  check_convolution("aclnnMaskedCausalConv1d", x, weight, mask);
  const Tensor value = wide(x), w = wide(weight);
  const int64_t steps = x.size(0), width = weight.size(0);
  Tensor sum = at::zeros(x.sizes(), value.options());
  for (int64_t k = 0; k < std::min(width, steps); k++) {
    sum.narrow(0, k, steps - k).addcmul_(value.narrow(0, 0, steps - k), w[width - 1 - k]);
  }
  put(out, masked(sum, mask));
}

void causal_convolution_backward(const Tensor& gradient, const Tensor& x, const Tensor& weight,
                                 const OptionalTensor& mask, Tensor& grad_x, Tensor& grad_weight) {
  const char* const op = "aclnnMaskedCausalConv1dBackward";
  check_convolution(op, x, weight, mask);
  TORCH_CHECK(gradient.sizes() == x.sizes(), op, ": gradY is ", gradient.sizes(), " for x of ", x.sizes());
  const Tensor d = masked(gradient, mask), value = wide(x), w = wide(weight);
  const int64_t steps = x.size(0), width = weight.size(0);
  Tensor dx = at::zeros(x.sizes(), d.options()), dw = at::zeros(weight.sizes(), d.options());
  for (int64_t k = 0; k < std::min(width, steps); k++) {
    const Tensor later = d.narrow(0, k, steps - k);
    dx.narrow(0, 0, steps - k).addcmul_(later, w[width - 1 - k]);
    dw[width - 1 - k].copy_((later * value.narrow(0, 0, steps - k)).flatten(0, 1).sum(0));
  }
  put(grad_x, dx);
  put(grad_weight, dw);
}

}  // namespace softnpu::ops::kernels
