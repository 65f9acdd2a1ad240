// Fractional max pooling: windows whose places are drawn, gathered and reduced. Who calls it: rows of ops/aten.yaml; the dispatcher
// for the gradient of volumes, which has no structured kernel.
#include <ATen/Context.h>
#include <ATen/OpMathType.h>
#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/ops/arange.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

int64_t product(at::IntArrayRef sizes) {
  int64_t result = 1;
  for (const int64_t size : sizes) result *= size;
  return result;
}

// Where each plane's windows of one dimension begin. In the samples' own type, whose rounding decides.
at::Tensor begins(const at::Tensor& sample, int64_t in, int64_t out, int64_t window) {
  const at::TensorOptions longs = sample.options().dtype(at::kLong);
  std::vector<int64_t> shape = sample.sizes().vec();
  shape.back() = out;
  at::Tensor result = at::Tensor(sample.new_empty(shape, longs)).fill_(in - window);
  if (out > 1) {
    const at::Tensor whole = sample.new_empty({}).fill_(in - window), steps = sample.new_empty({}).fill_(out - 1);
    const at::Tensor alpha = whole.div(steps), count = at::arange(out - 1, longs).to(sample.scalar_type());
    const at::Tensor place = count.add(sample).mul(alpha).to(at::kLong).sub(sample.mul(alpha).to(at::kLong));
    result.slice(-1, 0, out - 1).copy_(place);
  }
  return result;
}

}  // namespace

// Planes are all dimensions before the pooled ones, which are as many as `window` has sizes.
std::tuple<at::Tensor, at::Tensor> fractional_pool(const at::Tensor& self, at::IntArrayRef window, at::IntArrayRef out,
                                                   const at::Tensor& samples) {
  const auto n = static_cast<int64_t>(window.size());
  if (n == 2) {
    at::native::fractional_max_pool_check_shape<2>(self, samples);
  } else {
    at::native::fractional_max_pool_check_shape<3>(self, samples);
  }
  const at::IntArrayRef planes = self.sizes().slice(0, self.dim() - n), in = self.sizes().slice(self.dim() - n);
  const int64_t batch = planes.size() == 2 ? planes[0] : 1;
  const at::Tensor drawn = samples.slice(0, 0, batch).reshape({-1, n});
  // Of each plane: [windows of d0, d1, .., places in a window of d0, d1, ..]
  at::Tensor place;
  for (int64_t d = 0; d < n; ++d) {
    const at::Tensor sample = drawn.slice(1, n == 2 ? 1 - d : d, (n == 2 ? 1 - d : d) + 1);  // an image's are W, H
    std::vector<int64_t> first(2 * n + 1, 1), inside(2 * n + 1, 1);
    first[0] = -1;
    first[1 + d] = out[d];
    inside[1 + n + d] = window[d];
    const at::Tensor begin = begins(sample, in[d], out[d], window[d]).reshape(first);
    const at::Tensor at = begin.add(at::arange(window[d], begin.options()).reshape(inside));
    place = d == 0 ? at : place.mul(in[d]).add(at);
  }
  const int64_t count = drawn.size(0), windows = product(out), size = product(window);
  place = place.reshape({count, windows * size});
  const at::Tensor values = self.reshape({count, -1}).gather(1, place).reshape({count, windows, size});
  const at::Tensor last = at::arange(1, size + 1, place.options()).mul(values.ne(values)).amax(-1, true);
  // The first of the largest; the last that is not a number.
  const at::Tensor found = std::get<1>(values.max(-1, true));
  const at::Tensor best = where(last.gt(0), last.sub(1), found);
  std::vector<int64_t> shape = planes.vec();
  shape.insert(shape.end(), out.begin(), out.end());
  const at::Tensor indices = place.reshape({count, windows, size}).gather(-1, best).reshape(shape);
  return {values.gather(-1, best).reshape(shape), indices};
}

at::Tensor fractional_pool_backward(const at::Tensor& grad, const at::Tensor& self, at::IntArrayRef out,
                                    const at::Tensor& indices) {
  const auto n = static_cast<int64_t>(out.size());
  const at::ScalarType type = at::toOpMathType(grad.scalar_type());
  const int64_t size = product(self.sizes().slice(self.dim() - n));
  const int64_t count = product(self.sizes().slice(0, self.dim() - n));
  const std::vector<int64_t> shape = {count, product(out)};
  const at::Tensor zeros = self.new_zeros({count, size}, self.options().dtype(type));
  const at::Tensor sums = zeros.scatter_add(1, indices.reshape(shape), grad.to(type).reshape(shape));
  return sums.to(self.scalar_type()).reshape(self.sizes());
}

namespace {

at::Tensor volume_backward(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel_size,
                           at::IntArrayRef output_size, const at::Tensor& indices) {
  TORCH_CHECK(output_size.size() == 3 && self.dim() >= 4,
              "fractional_max_pool3d: output_size must either be a single Int or tuple of three Ints");
  const char* const names[] = {"time", "height", "width"};
  for (int64_t d = 0; d < 3; ++d) {
    TORCH_CHECK(output_size[d] == grad_output.size(grad_output.dim() - 3 + d),
                "fractional_max_pool3d_backward_out(): gradOutput ", names[d], " unexpected");
  }
  const NPUGuard guard(self.device().index());
  at::globalContext().alertNotDeterministic("fractional_max_pool3d_backward_npu");
  return fractional_pool_backward(grad_output, self, output_size, indices);
}

at::Tensor& volume_backward_out(const at::Tensor& grad_output, const at::Tensor& self, at::IntArrayRef kernel_size,
                                at::IntArrayRef output_size, const at::Tensor& indices, at::Tensor& grad_input) {
  const at::Tensor result = volume_backward(grad_output, self, kernel_size, output_size, indices);
  resize_out(grad_input, result.sizes());
  return grad_input.copy_(result);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fractional_max_pool3d_backward", NPU_FN(volume_backward));
  m.impl("fractional_max_pool3d_backward.grad_input", NPU_FN(volume_backward_out));
}

}  // namespace npu
