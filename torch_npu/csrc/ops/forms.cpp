// Single forms of operators whose others have a kernel: numbers in the place of tensors, given outputs, tensors of lengths. Each
// calls the form that has one.
#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_adaptive_avg_pool2d.h>
#include <ATen/ops/_adaptive_avg_pool3d.h>
#include <ATen/ops/_adaptive_avg_pool3d_backward.h>
#include <ATen/ops/_aminmax_native.h>
#include <ATen/ops/_assert_async_native.h>
#include <ATen/ops/_batch_norm_with_update.h>
#include <ATen/ops/_ctc_loss_backward_native.h>
#include <ATen/ops/_ctc_loss_native.h>
#include <ATen/ops/_functional_assert_async_native.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/glu_backward_jvp_native.h>
#include <ATen/ops/multi_margin_loss_backward.h>
#include <ATen/ops/mvlgamma_native.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensordot.h>
#include <ATen/ops/unique_consecutive.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/ops/castable.h"
#include "csrc/ops/device_check.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Words = std::optional<std::string_view>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// A Python number, which promotes as one.
at::Tensor number(const at::Scalar& value, const at::Tensor& beside) {
  return at::native::wrapped_scalar_tensor(value, beside.device());
}

at::Tensor searchsorted(const at::Tensor& sorted, const at::Scalar& value, bool out_int32, bool right, Words side,
                        const OptionalTensor& sorter) {
  return at::searchsorted(sorted, number(value, sorted), out_int32, right, side, sorter);
}

at::Tensor& searchsorted_out(const at::Tensor& sorted, const at::Scalar& value, bool out_int32, bool right, Words side,
                             const OptionalTensor& sorter, at::Tensor& out) {
  return at::searchsorted_out(out, sorted, number(value, sorted), out_int32, right, side, sorter);
}

at::Tensor bucketize(const at::Scalar& value, const at::Tensor& boundaries, bool out_int32, bool right) {
  return at::bucketize(number(value, boundaries), boundaries, out_int32, right);
}

Three unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool inverse, bool counts) {
  return at::unique_consecutive(self, inverse, counts, dim);
}

at::Tensor& adaptive_avg_pool2d_out(const at::Tensor& self, at::IntArrayRef size, at::Tensor& out) {
  return copy_into(out, at::_adaptive_avg_pool2d(self, size));
}

at::Tensor& adaptive_avg_pool3d_out(const at::Tensor& self, at::IntArrayRef size, at::Tensor& out) {
  return copy_into(out, at::_adaptive_avg_pool3d(self, size));
}

at::Tensor& adaptive_avg_pool3d_backward_out(const at::Tensor& grad, const at::Tensor& self, at::Tensor& grad_input) {
  return copy_into(grad_input, at::_adaptive_avg_pool3d_backward(grad, self));
}

at::Tensor& multi_margin_loss_backward_out(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& target,
                                           const at::Scalar& p, const at::Scalar& margin, const OptionalTensor& weight,
                                           int64_t reduction, at::Tensor& grad_input) {
  return copy_into(grad_input, at::multi_margin_loss_backward(grad, self, target, p, margin, weight, reduction));
}

// Statistics of 16-bit rows are float32, and may be asked for in the rows' type, which the CPU's have.
using Outputs3 = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&>;
using Outputs4 = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&>;

Outputs3 legit_batch_norm_out(const at::Tensor& self, const OptionalTensor& weight, const OptionalTensor& bias,
                              at::Tensor& mean, at::Tensor& var, bool training, double momentum, double eps,
                              at::Tensor& out, at::Tensor& save_mean, at::Tensor& save_invstd) {
  const auto [y, m, s] = at::_native_batch_norm_legit(self, weight, bias, mean, var, training, momentum, eps);
  return {copy_into(out, y), cast_into(save_mean, m), cast_into(save_invstd, s)};
}

Outputs3 batch_norm_no_stats_out(const at::Tensor& self, const OptionalTensor& weight, const OptionalTensor& bias,
                                 bool training, double momentum, double eps, at::Tensor& out, at::Tensor& save_mean,
                                 at::Tensor& save_invstd) {
  const auto [y, m, s] = at::_native_batch_norm_legit(self, weight, bias, training, momentum, eps);
  return {copy_into(out, y), cast_into(save_mean, m), cast_into(save_invstd, s)};
}

Outputs4 batch_norm_update_out(const at::Tensor& self, const OptionalTensor& weight, const OptionalTensor& bias,
                               at::Tensor& mean, at::Tensor& var, double momentum, double eps, at::Tensor& out,
                               at::Tensor& save_mean, at::Tensor& save_invstd, at::Tensor& reserve) {
  const auto [y, m, s, r] = at::_batch_norm_with_update(self, weight, bias, mean, var, momentum, eps);
  return {copy_into(out, y), cast_into(save_mean, m), cast_into(save_invstd, s), copy_into(reserve, r)};
}

at::Tensor add_relu(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return at::add(self, other, alpha).relu_();
}
at::Tensor add_relu_number(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return at::add(self, other, alpha).relu_();
}
at::Tensor& add_relu_(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  return self.add_(other, alpha).relu_();
}
at::Tensor& add_relu_number_(at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return self.add_(other, alpha).relu_();
}
at::Tensor& add_relu_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  return at::add_out(out, self, other, alpha).relu_();
}

at::Tensor linear_combination(const at::Tensor& self, const at::Tensor& coefficients) {
  TORCH_CHECK(self.dim() > 0 && self.numel() > 0 && coefficients.dim() == 2 && coefficients.size(1) == self.size(0),
              "_compute_linear_combination: expected coefficients of ", self.dim() ? self.size(0) : 0, " columns, got ",
              coefficients.sizes());
  return at::tensordot(coefficients.to(self.scalar_type()), self, {1}, {0});
}

at::Tensor& linear_combination_out(const at::Tensor& self, const at::Tensor& coefficients, at::Tensor& out) {
  return copy_into(out, linear_combination(self, coefficients));
}

at::Tensor glu_jvp(const at::Tensor& glu, const at::Tensor& x, const at::Tensor& dx, int64_t dim) {
  const int64_t half = x.size(dim) / 2;
  const at::Tensor gate = x.narrow(dim, half, half).sigmoid();
  const at::Tensor moved = dx.narrow(dim, half, half);
  return dx.narrow(dim, 0, half).mul(gate).add(glu.mul(moved.sub(gate.mul(moved))));
}

at::Tensor dep_token(std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                     std::optional<at::Device> device, std::optional<bool> pinned,
                     std::optional<at::MemoryFormat> format) {
  return at::empty({}, dtype, layout, device, pinned, format);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("searchsorted.Scalar", NPU_FN(searchsorted));
  m.impl("searchsorted.Scalar_out", NPU_FN(searchsorted_out));
  m.impl("bucketize.Scalar", TORCH_FN(bucketize));
  m.impl("unique_dim_consecutive", TORCH_FN(unique_dim_consecutive));
  m.impl("adaptive_avg_pool2d.out", NPU_FN(adaptive_avg_pool2d_out));
  m.impl("adaptive_avg_pool3d.out", NPU_FN(adaptive_avg_pool3d_out));
  m.impl("adaptive_avg_pool3d_backward.grad_input", NPU_FN(adaptive_avg_pool3d_backward_out));
  m.impl("multi_margin_loss_backward.grad_input", NPU_FN(multi_margin_loss_backward_out));
  m.impl("_native_batch_norm_legit.out", NPU_FN(legit_batch_norm_out));
  m.impl("_native_batch_norm_legit.no_stats_out", NPU_FN(batch_norm_no_stats_out));
  m.impl("_batch_norm_with_update.out", NPU_FN(batch_norm_update_out));
  m.impl("_add_relu.Tensor", NPU_FN(add_relu));
  m.impl("_add_relu.Scalar", TORCH_FN(add_relu_number));
  m.impl("_add_relu_.Tensor", NPU_FN(add_relu_));
  m.impl("_add_relu_.Scalar", TORCH_FN(add_relu_number_));
  m.impl("_add_relu.out", NPU_FN(add_relu_out));
  m.impl("_compute_linear_combination", NPU_FN(linear_combination));
  m.impl("_compute_linear_combination.out", NPU_FN(linear_combination_out));
  m.impl("glu_jvp", NPU_FN(glu_jvp));
  m.impl("_make_dep_token", TORCH_FN(dep_token));
  // PyTorch's own, which are calls of operators.
  m.impl("glu_backward_jvp", NPU_FN(at::native::glu_backward_jvp));
  m.impl("_aminmax.dim", TORCH_FN(at::native::_aminmax));
  m.impl("mvlgamma.out", NPU_FN(at::native::mvlgamma_out));
  m.impl("_ctc_loss.Tensor", NPU_FN(at::native::ctc_loss_tensor));
  m.impl("_ctc_loss_backward.Tensor", NPU_FN(at::native::ctc_loss_backward_tensor));
  // They wait for the stream: the error has to be told here.
  m.impl("_assert_async", TORCH_FN(at::native::_assert_async_cpu));
  m.impl("_assert_async.msg", TORCH_FN(at::native::_assert_async_msg_cpu));
  m.impl("_functional_assert_async.msg", NPU_FN(at::native::_functional_assert_async_msg_cpu));
}

}  // namespace npu
