// Operators along a dimension that CANN has no function for: the most frequent value, running log-sums, nonzero of a given size, and
// normalization that returns a reserve. Nothing is read back. Who calls it: PyTorch's dispatcher.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/real.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/torch_version.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/doubles.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

// The smallest of the values that occur most often, and where it occurs last.
std::tuple<at::Tensor, at::Tensor> mode(const at::Tensor& self, int64_t dim, bool keepdim) {
  const NPUGuard guard(self.device().index());
  const int64_t along = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() == 0) return {self.clone(), self.new_zeros(self.sizes(), self.options().dtype(at::kLong))};
  TORCH_CHECK_INDEX(self.size(along) > 0, "mode(): Expected reduction dim ", along, " to have non-zero size.");
  const auto [sorted, order] = at::sort(self, std::optional<bool>(true), along);
  const int64_t n = self.size(along);
  std::vector<int64_t> shape(self.dim(), 1);
  shape[along] = n;
  const at::Tensor place = at::arange(n, order.options()).reshape(shape);
  const at::Tensor first = at::full_like(sorted.slice(along, 0, 1), 1, at::kBool);
  const std::vector<at::Tensor> parts = {first, sorted.slice(along, 1).ne(sorted.slice(along, 0, n - 1))};
  const at::Tensor changes = at::cat(parts, along);
  const at::Tensor begin = std::get<0>(place.mul(changes).cummax(along));
  const at::Tensor last = place.sub(begin).argmax(along, true);
  at::Tensor values = sorted.gather(along, last), indices = order.gather(along, last);
  if (!keepdim) {
    values = values.squeeze(along);
    indices = indices.squeeze(along);
  }
  return {values, indices};
}

std::tuple<at::Tensor&, at::Tensor&> mode_out(const at::Tensor& self, int64_t dim, bool keepdim, at::Tensor& values,
                                              at::Tensor& indices) {
  TORCH_CHECK(values.scalar_type() == self.scalar_type(), "expected scalar type '", self.scalar_type(), "' but found '",
              values.scalar_type(), "'");
  TORCH_CHECK(indices.scalar_type() == at::kLong, "expected scalar type 'Long' but found '", indices.scalar_type(),
              "'");
  const auto [found, where_found] = mode(self, dim, keepdim);
  resize_out(values, found.sizes());
  resize_out(indices, found.sizes());
  values.copy_(found);
  indices.copy_(where_found);
  return {values, indices};
}

// log(exp(sum) + exp(x)) of complex numbers, whose angle is that of the larger and what the other adds, not reduced.
at::Tensor log_of_sum(const at::Tensor& sum, const at::Tensor& x) {
  const at::Tensor newer = at::real(x).ge(at::real(sum));
  const at::Tensor large = where(newer, x, sum), small = where(newer, sum, x);
  const at::Tensor none = at::real(large).eq(-INFINITY);
  return where(none, small, small.sub(large).exp().add(1).log().add(large));
}

// The same of real ones; CANN's function gives no double precision. Equal infinities have no difference.
at::Tensor log_of_real_sum(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor large = a.maximum(b), apart = a.sub(b).abs().neg();
  return where(large.isinf(), large, large.add(apart.exp().log1p()));
}

// Each step adds what lies twice as far back; of complex numbers, whose angles depend on the order, the next.
at::Tensor logcumsumexp(const at::Tensor& self, int64_t dim) {
  const NPUGuard guard(self.device().index());
  const int64_t along = at::maybe_wrap_dim(dim, self.dim());
  if (self.dim() == 0 || self.numel() == 0) return self.clone();
  const int64_t n = self.size(along);
  at::Tensor x = wide(self);
  if (x.is_complex()) {
    std::vector<at::Tensor> sums = {x.narrow(along, 0, 1)};
    for (int64_t i = 1; i < n; ++i) sums.push_back(log_of_sum(sums.back(), x.narrow(along, i, 1)));
    return joined(sums, along).to(self.scalar_type());
  }
  for (int64_t back = 1; back < n; back *= 2) {
    const at::Tensor added = log_of_real_sum(x.slice(along, back), x.slice(along, 0, n - back));
    const std::vector<at::Tensor> parts = {x.slice(along, 0, back), added};
    x = at::cat(parts, along);
  }
  return x.to(self.scalar_type());
}

at::Tensor& logcumsumexp_out(const at::Tensor& self, int64_t dim, at::Tensor& out) {
  const at::Tensor result = logcumsumexp(self, dim);
  resize_out(out, result.sizes());
  return out.copy_(result);
}

// In memory as PyTorch's meta function says: in 2.13 a column for each dimension, one after the other.
at::Tensor as_meta_has_it(const at::Tensor& columns) {
  return kNonzeroStaticHasColumns ? columns : columns.clone(at::MemoryFormat::Contiguous);
}

at::Tensor nonzero_static(const at::Tensor& self, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  const NPUGuard guard(self.device().index());
  const at::TensorOptions longs = self.options().dtype(at::kLong);
  if (self.dim() == 0 || size == 0 || self.numel() == 0) {
    return as_meta_has_it(self.new_empty_strided({size, self.dim()}, {1, size}, longs).fill_(fill_value));
  }
  const at::Tensor found = self.ne(0).reshape({-1});
  const at::Tensor place = found.to(at::kLong).cumsum(0).sub(1).masked_fill(found.logical_not(), size).clamp_max(size);
  const at::Tensor none = self.new_zeros({size + 1}, longs).fill_(-1);
  at::Tensor rest = none.scatter(0, place, at::arange(self.numel(), longs)).slice(0, 0, size);
  const at::Tensor missing = rest.lt(0);
  rest = rest.clamp_min(0);
  std::vector<at::Tensor> coordinates(self.dim());
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    coordinates[d] = rest.remainder(self.size(d)).masked_fill(missing, fill_value);
    rest = rest.div(self.size(d), "floor");
  }
  return as_meta_has_it(at::stack(coordinates, 0).t());
}

at::Tensor& nonzero_static_out(const at::Tensor& self, int64_t size, int64_t fill_value, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "nonzero_static: Expected out tensor to have scalar type Long but got "
              "scalar type",
              out.scalar_type());
  const at::Tensor result = nonzero_static(self, size, fill_value);
  resize_out(out, result.sizes());
  return out.copy_(result);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_with_update(
    const at::Tensor& input, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
    at::Tensor& running_mean, at::Tensor& running_var, double momentum, double eps) {
  auto [out, mean, deviation] =
      at::native_batch_norm(input, weight, bias, running_mean, running_var, true, momentum, eps);
  return {out, mean, deviation, input.new_empty({0}, input.options().dtype(at::kByte))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm_backward(
    const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& weight,
    const std::optional<at::Tensor>& running_mean, const std::optional<at::Tensor>& running_var,
    const std::optional<at::Tensor>& save_mean, const std::optional<at::Tensor>& save_var, bool update, double eps,
    std::array<bool, 3> mask, const at::Tensor& reserve) {
  return at::native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_var, update,
                                        eps, mask);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mode", TORCH_FN(mode));
  m.impl("mode.values", NPU_FN(mode_out));
  m.impl("_logcumsumexp", TORCH_FN(logcumsumexp));
  m.impl("_logcumsumexp.out", NPU_FN(logcumsumexp_out));
  m.impl("nonzero_static", TORCH_FN(nonzero_static));
  m.impl("nonzero_static.out", NPU_FN(nonzero_static_out));
  m.impl("_batch_norm_with_update", TORCH_FN(batch_norm_with_update));
  m.impl("batch_norm_backward", TORCH_FN(batch_norm_backward));
}

}  // namespace npu
