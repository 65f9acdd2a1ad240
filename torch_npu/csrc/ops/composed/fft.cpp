// Fourier transforms as products with matrices of roots of unity, in double precision: lengths are split by their factors up to 64
// (Cooley and Tukey), a length of large prime factors becomes a convolution of a smooth length (Bluestein). CANN has none.
// Cost: n (a + b + ..) multiply-adds for n = a b .., about sixteen bytes an element of temporary memory for each factor.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fft_c2c.h>
#include <ATen/ops/_fft_c2r.h>
#include <ATen/ops/_fft_r2c.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/real.h>
#include <c10/util/MathConstants.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/type_name.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/doubles.h"
#include "csrc/ops/composed/processor.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

constexpr int64_t kMatrix = 64;        // the largest factor that is one product
constexpr int64_t kWholeMatrix = 512;  // the largest length without such a factor that is one product
constexpr double kPi = c10::pi<double>;

at::Tensor counts(int64_t n, const at::Tensor& like) { return at::arange(n, like.options().dtype(at::kLong)); }

// exp(2 pi i steps / n), steps an integer tensor.
at::Tensor roots(const at::Tensor& steps, int64_t n, int sign) {
  const at::Tensor angle = steps.remainder(n).to(at::kDouble).mul(sign * 2 * kPi / static_cast<double>(n));
  return at::complex(angle.cos(), angle.sin());
}

at::Tensor matrix_of(int64_t n, int sign, const at::Tensor& like) {
  const at::Tensor k = counts(n, like);
  return roots(k.unsqueeze(1).mul(k), n, sign);
}

int64_t factor_of(int64_t n) {
  for (int64_t a = std::min(n, kMatrix); a > 1; --a) {
    if (n % a == 0) return a;
  }
  return 1;
}

at::Tensor transform(const at::Tensor& x, int sign);

at::Tensor bluestein(const at::Tensor& x, int sign) {
  const int64_t n = x.size(-1);
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  const at::Tensor k = counts(n, x);
  const at::Tensor chirp = roots(k.mul(k), 2 * n, sign);  // k^2 of a length below 2^31
  const at::Tensor inverse = chirp.conj().resolve_conj();
  const std::vector<at::Tensor> parts = {inverse, inverse.new_zeros({m - 2 * n + 1}), inverse.slice(0, 1).flip({0})};
  const at::Tensor kernel = joined(parts, 0);
  const at::Tensor padded = at::constant_pad_nd(x.mul(chirp), {0, m - n});
  const at::Tensor product = transform(padded, -1).mul(transform(kernel, -1));
  return transform(product, 1).slice(-1, 0, n).mul(chirp).div(static_cast<double>(m));
}

// Rows times a matrix, of which a tensor has any number of dimensions.
at::Tensor by_matrix(const at::Tensor& x, const at::Tensor& matrix) {
  return product(x.reshape({-1, x.size(-1)}), matrix).view(x.sizes());
}

// Of the last dimension, without a factor.
at::Tensor transform(const at::Tensor& x, int sign) {
  const int64_t n = x.size(-1), a = factor_of(n);
  if (n == 1) return x;
  if (a == n || (a == 1 && n <= kWholeMatrix)) return by_matrix(x, matrix_of(n, sign, x));
  if (a == 1) return bluestein(x, sign);
  const int64_t b = n / a;
  std::vector<int64_t> split = x.sizes().slice(0, x.dim() - 1).vec();
  split.insert(split.end(), {a, b});
  const at::Tensor columns = product(matrix_of(a, sign, x), x.reshape(split));
  const at::Tensor twiddle = roots(counts(a, x).unsqueeze(1).mul(counts(b, x)), n, sign);
  return transform(columns.mul(twiddle), sign).transpose(-1, -2).reshape(x.sizes());
}

at::Tensor along(const at::Tensor& x, at::IntArrayRef dims, int sign) {
  at::Tensor result = x;
  for (const int64_t dim : dims) result = transform(result.transpose(dim, -1), sign).transpose(dim, -1);
  return result;
}

// PyTorch's fft_norm_mode: none, by the root of n, by n.
double scale(int64_t normalization, double n) {
  return normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(n) : 1 / n;
}

double elements(const at::Tensor& self, at::IntArrayRef dims) {
  double n = 1;
  for (const int64_t dim : dims) n *= static_cast<double>(self.size(dim));
  return n;
}

// The transformed dimensions from the largest step of `like` to the smallest; the last may stay where it is.
std::vector<int64_t> sorted(at::IntArrayRef dims, const at::Tensor& like, bool keep_last = false) {
  std::vector<int64_t> result = dims.vec();
  std::stable_sort(result.begin(), result.end() - (keep_last ? 1 : 0),
                   [&](int64_t a, int64_t b) { return like.stride(a) > like.stride(b); });
  return result;
}

// The strides that PyTorch's meta functions promise: other dimensions outside, by the steps of `like`, `dims` inside.
// Where each dimension stands in memory from the outermost, and back.
std::pair<std::vector<int64_t>, std::vector<int64_t>> layout(const at::Tensor& like, const std::vector<int64_t>& dims) {
  std::vector<int64_t> order, inverse(like.dim());
  for (int64_t d = 0; d < like.dim(); ++d) {
    if (std::ranges::find(dims, d) == dims.end()) order.push_back(d);
  }
  order = sorted(order, like);
  order.insert(order.end(), dims.begin(), dims.end());
  for (int64_t i = 0; i < like.dim(); ++i) inverse[order[i]] = i;
  return {order, inverse};
}

at::Tensor laid_out(const at::Tensor& x, const at::Tensor& like, const std::vector<int64_t>& dims) {
  const auto [order, inverse] = layout(like, dims);
  return x.permute(order).contiguous().permute(inverse);
}

// On the current device, with nothing in it yet.
at::Tensor empty_laid_out(const std::vector<int64_t>& sizes, at::ScalarType type, const at::Tensor& like,
                          const std::vector<int64_t>& dims) {
  const auto [order, inverse] = layout(like, dims);
  std::vector<int64_t> placed;
  for (const int64_t d : order) placed.push_back(sizes[d]);
  return empty(placed, type).permute(inverse);
}

// Are there kernels of the processor, and of this type?
bool runs_on_processor(const at::Tensor& self) {
  const at::ScalarType real = c10::toRealValueType(self.scalar_type());
  return has_processor_kernels() && self.numel() > 0 && (real == at::kFloat || real == at::kDouble);
}

std::vector<int64_t> wrapped(at::IntArrayRef dims, const at::Tensor& self) {
  std::vector<int64_t> result = dims.vec();
  at::maybe_wrap_dims(result, self.dim());
  return result;
}

at::Tensor fft_c2c(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward) {
  TORCH_CHECK(self.is_complex(), "_fft_c2c: expected a complex tensor, got ", type_name(self));
  const NPUGuard guard(self.device().index());
  if (self.numel() == 0 || dim.empty()) return self.clone();
  const std::vector<int64_t> dims = wrapped(dim, self);
  if (runs_on_processor(self)) {
    at::Tensor result = empty_laid_out(self.sizes().vec(), self.scalar_type(), self, sorted(dims, self));
    run_on_processor("_fft_c2c", {result}, {self}, [dims, normalization, forward](Tensors& outs, const Tensors& ins) {
      at::_fft_c2c_out(outs[0], ins[0], dims, normalization, forward);
    });
    return result;
  }
  const at::Tensor result = along(wide(self), dims, forward ? -1 : 1);
  const double factor = scale(normalization, elements(self, dims));
  return laid_out(result.mul(factor).to(self.scalar_type()), self, sorted(dims, self));
}

at::Tensor fft_r2c(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided) {
  TORCH_CHECK(self.is_floating_point(), "_fft_r2c: expected a real floating-point tensor, got ", type_name(self));
  const NPUGuard guard(self.device().index());
  const std::vector<int64_t> dims = wrapped(dim, self);
  const int64_t last = dims.back();
  const at::ScalarType type = c10::toComplexType(self.scalar_type());
  if (runs_on_processor(self)) {
    std::vector<int64_t> sizes = self.sizes().vec();
    if (onesided) sizes[last] = sizes[last] / 2 + 1;
    at::Tensor result = empty_laid_out(sizes, type, self, sorted(dims, self, true));
    run_on_processor("_fft_r2c", {result}, {self}, [dims, normalization, onesided](Tensors& outs, const Tensors& ins) {
      at::_fft_r2c_out(outs[0], ins[0], dims, normalization, onesided);
    });
    return result;
  }
  at::Tensor x = wide(self).to(at::kComplexDouble);
  if (self.numel() > 0) x = along(x, {last}, -1);
  if (onesided) x = x.slice(last, 0, self.size(last) / 2 + 1);
  if (x.numel() > 0) x = along(x, at::IntArrayRef(dims).slice(0, dims.size() - 1), -1);
  const double factor = scale(normalization, elements(self, dims));
  return laid_out(x.mul(factor).to(type), self, sorted(dims, self, true));
}

at::Tensor fft_c2r(const at::Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_size) {
  TORCH_CHECK(self.is_complex(), "_fft_c2r: expected a complex tensor, got ", type_name(self));
  const NPUGuard guard(self.device().index());
  const std::vector<int64_t> dims = wrapped(dim, self), others(dims.begin(), dims.end() - 1);
  const int64_t last = dims.back();
  const at::ScalarType type = c10::toRealValueType(self.scalar_type());
  if (self.numel() == 0) {
    std::vector<int64_t> sizes = self.sizes().vec();
    sizes[last] = last_size;
    return self.new_zeros(sizes, self.options().dtype(type));
  }
  if (runs_on_processor(self)) {
    std::vector<int64_t> sizes = self.sizes().vec();
    sizes[last] = last_size;
    // As below: the other dimensions' transform is laid out first, and the last follows it.
    std::vector<int64_t> order = sorted(others, self);
    const at::Tensor like = others.empty() ? self : empty_laid_out(self.sizes().vec(), self.scalar_type(), self, order);
    at::Tensor result = empty_laid_out(sizes, type, like, {last});
    run_on_processor("_fft_c2r", {result}, {self}, [dims, normalization, last_size](Tensors& outs, const Tensors& ins) {
      at::_fft_c2r_out(outs[0], ins[0], dims, normalization, last_size);
    });
    return result;
  }
  at::Tensor x = wide(self);
  if (!others.empty()) x = laid_out(along(x, others, 1), self, sorted(others, self));
  const at::Tensor half = x.slice(last, 0, last_size / 2 + 1);
  const at::Tensor mirrored = half.slice(last, 1, (last_size + 1) / 2).flip({last}).conj().resolve_conj();
  const std::vector<at::Tensor> parts = {half, mirrored};
  const at::Tensor result = at::real(along(joined(parts, last), {last}, 1));
  const double n = elements(self, others) * static_cast<double>(last_size);
  return laid_out(result.mul(scale(normalization, n)).to(type), x, {last});
}

at::Tensor& put_out(at::Tensor& out, const at::Tensor& result) {
  resize_out(out, result.sizes());
  return out.copy_(result);
}

at::Tensor& fft_c2c_out(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool forward,
                        at::Tensor& out) {
  return put_out(out, fft_c2c(self, dims, normalization, forward));
}
at::Tensor& fft_r2c_out(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool onesided,
                        at::Tensor& out) {
  return put_out(out, fft_r2c(self, dims, normalization, onesided));
}
at::Tensor& fft_c2r_out(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, int64_t last_size,
                        at::Tensor& out) {
  return put_out(out, fft_c2r(self, dims, normalization, last_size));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fft_c2c", NPU_FN(fft_c2c));
  m.impl("_fft_c2c.out", NPU_FN(fft_c2c_out));
  m.impl("_fft_r2c", NPU_FN(fft_r2c));
  m.impl("_fft_r2c.out", NPU_FN(fft_r2c_out));
  m.impl("_fft_c2r", NPU_FN(fft_c2r));
  m.impl("_fft_c2r.out", NPU_FN(fft_c2r_out));
}

}  // namespace npu
