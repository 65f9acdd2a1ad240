// See legacy.h.
#include "csrc/ops/npu/legacy.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_fft_c2c.h>
#include <ATen/ops/_fft_r2c.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/real.h>
#include <ATen/ops/renorm.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/stft.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <torch/csrc/autograd/functions/utils.h>

#include <cmath>
#include <optional>

#include "csrc/core/without_gil.h"
#include "csrc/ops/npu/gradient_of.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

bool bit(int64_t mask, size_t i) { return (mask >> i) & 1; }

void check_step(const char* op, at::TensorList out, const at::Tensor& grad) {
  TORCH_CHECK(out.size() == 3, op, ": out is var, m and v, not ", out.size(), " tensors");
  for (const at::Tensor& t : out) {
    TORCH_CHECK(t.sym_sizes() == grad.sym_sizes(), op, ": a tensor of out has sizes ", t.sym_sizes(), ", the gradient ",
                grad.sym_sizes());
  }
}

// mul_ rounds a number to the tensor's type first, in bfloat16 0.999 to 1, unless it stands in a tensor.
at::Tensor& scale(at::Tensor& t, double number) { return t.mul_(at::native::wrapped_scalar_tensor(number)); }

}  // namespace

Pair depthwise_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                        at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                        std::array<bool, 2> mask) {
  const auto [dx, dw, none] = convolution_backward(grad, input, weight, stride, padding, dilation, false, {},
                                                   input.size(1), {mask[0], mask[1], false});
  return {dx, dw};
}

at::Tensor renorm_gradient(const at::Tensor& grad, const at::Tensor& input, const at::Scalar& p, int64_t dim,
                           const at::Scalar& most) {
  at::maybe_wrap_dim(dim, input.dim());  // refused here, not by the kernel
  const auto f = [&](const auto& in) { return at::renorm(in[0], p, dim, most); };
  return gradients_of("npu_renorm_backward", f, {input}, grad)[0];
}

at::Tensor complex_to_real_gradient(const at::Tensor& grad, at::IntArrayRef dim, int64_t normalization) {
  TORCH_CHECK(!dim.empty(), "fft_c2r_backward: dim is empty");
  if (TORCH_GUARD_OR_FALSE(grad.sym_numel().sym_eq(0))) {  // which PyTorch's kernel for "meta" does not take
    const Sizes sizes = with_size(grad, dim.back(), grad.sym_size(dim.back()) / 2 + 1);
    return at::zeros_symint(sizes, grad.options().dtype(c10::toComplexType(grad.scalar_type())));
  }
  const at::Tensor half = at::_fft_r2c(grad, dim, normalization, /*onesided=*/true);
  const int64_t last = dim.back(), twice = grad.size(last) - half.size(last);
  const at::Tensor place = at::arange(half.size(last), grad.options());
  std::vector<int64_t> shape(half.dim(), 1);
  shape[wrap(half, last)] = half.size(last);
  const at::Tensor factor = (place.ge(1).logical_and(place.le(twice)).to(grad.scalar_type()) + 1).reshape(shape);
  return half * factor;
}

at::Tensor real_to_complex_gradient(const at::Tensor& grad, at::IntArrayRef dim, int64_t normalization, bool onesided,
                                    int64_t last) {
  TORCH_CHECK(!dim.empty(), "fft_r2c_backward: dim is empty");
  at::Tensor full = grad;
  if (onesided && last > grad.size(dim.back())) {
    const int64_t at = wrap(grad, dim.back());
    std::vector<int64_t> pads(2 * (grad.dim() - at), 0);
    pads.back() = last - grad.size(at);
    full = at::constant_pad_nd(grad, pads);
  }
  return at::real(at::_fft_c2c(full, dim, normalization, /*forward=*/false)).contiguous();
}

at::Tensor stft_gradient(const at::Tensor& grad, const at::Tensor& input, int64_t n_fft, std::optional<int64_t> hop,
                         std::optional<int64_t> length, const OptionalTensor& window, bool normalized,
                         std::optional<bool> onesided, std::optional<bool> complex) {
  const auto f = [&](const auto& in) {
    const OptionalTensor own = given(window) ? OptionalTensor(savable(*window)) : std::nullopt;
    return at::stft(in[0], n_fft, hop, length, own, normalized, onesided, complex);
  };
  return gradients_of("stft_backward", f, {input}, grad)[0];
}

Triple matmul_second_gradient(const OptionalTensor& grad_self, const OptionalTensor& grad_other, const at::Tensor& grad,
                              const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK_NOT_IMPLEMENTED(!torch::autograd::compute_requires_grad(grad_self, grad_other, grad, self, other),
                              "derivative for npu::matmul_double_backward is not implemented");
  refuse_forward_ad("matmul_double_backward", grad, self, other);  // which are detached
  std::optional<c10::InferenceMode> off;
  if (c10::InferenceMode::is_enabled()) off.emplace(false);
  const at::AutoGradMode on(true);
  const auto leaf = [](const at::Tensor& t) { return savable(t).detach().requires_grad_(); };
  const at::Tensor dy = leaf(grad), a = leaf(self), b = leaf(other);
  const at::Tensor product = multiplied(a, b);
  const WithoutGil release;
  const auto first = torch::autograd::grad({product}, {a, b}, {dy}, std::nullopt, /*create_graph=*/true);
  std::vector<at::Tensor> outputs, seeds;
  const OptionalTensor* given_ones[] = {&grad_self, &grad_other};
  for (size_t i = 0; i < 2; i++) {
    if (!given(*given_ones[i])) continue;
    outputs.push_back(first[i]);
    seeds.push_back(savable(**given_ones[i]));
  }
  if (outputs.empty()) return {};
  const auto second =
      torch::autograd::grad(outputs, {dy, a, b}, seeds, std::nullopt, /*create_graph=*/false, /*allow_unused=*/true);
  return {second[0], second[1], second[2]};
}

at::Tensor repeats_gradient(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& repeats,
                            std::optional<int64_t> dim) {
  const at::Tensor flat = dim ? input : input.flatten();
  const int64_t at = dim ? *dim : 0;
  constexpr const char* kOp = "repeat_interleave_backward_tensor";
  need_dims(kOp, "repeats", repeats, {0, 1});
  need_elements(kOp, "repeats", repeats, {1, flat.sym_size(at)});
  need_sizes(kOp, "grad", grad, with_size(flat, at, -1));
  const at::Tensor counts = repeats.sym_numel() == 1 ? repeats.expand_symint({flat.sym_size(at)}) : repeats;
  const at::Tensor source =
      at::repeat_interleave_symint(counts.to(at::kLong), std::optional<c10::SymInt>(grad.sym_size(at)));
  return at::zeros_symint(flat.sym_sizes(), grad.options())
      .index_add(at, source, grad)
      .reshape_symint(input.sym_sizes());
}

at::Tensor product_gradient(const at::Tensor& a, const at::Tensor& b, c10::SymIntArrayRef size) {
  const at::Tensor out = multiplied(a, b);
  return out.sym_sizes() == size ? out : at::sum_to(out, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor quantized(const at::Tensor& input, const at::Tensor& scales, const at::Tensor& zero_points, int64_t axis,
                     at::ScalarType type) {
  std::vector<int64_t> shape(input.dim(), 1);
  if (scales.numel() != 1) shape[wrap(input, axis)] = scales.numel();
  const at::ScalarType to = quantized_type(static_cast<int64_t>(type));
  const double low = to == at::kChar ? -128 : to == at::kByte ? 0 : -2147483648.0;
  const double high = to == at::kChar ? 127 : to == at::kByte ? 255 : 2147483520.0;
  const at::Tensor value = (input.to(at::kFloat) / scales.reshape(shape)).round() + zero_points.reshape(shape);
  return value.clamp(low, high).to(to);
}

at::Tensor strided_elements(const at::Tensor& input, at::IntArrayRef begin, at::IntArrayRef end,
                            at::IntArrayRef strides, IndexMasks masks) {
  TORCH_CHECK(begin.size() == end.size() && begin.size() == strides.size(), "npu_indexing: ", begin.size(), " begins, ",
              end.size(), " ends, ", strides.size(), " strides");
  at::Tensor t = input;
  int64_t dim = 0, used = 0;
  for (size_t i = 0; i < begin.size(); i++) used += !bit(masks.new_axis, i) && !bit(masks.ellipsis, i);
  for (size_t i = 0; i < begin.size(); i++) {
    if (bit(masks.ellipsis, i)) {
      dim += input.dim() - used;
      continue;
    }
    if (bit(masks.new_axis, i)) {
      t = t.unsqueeze(dim++);
      continue;
    }
    TORCH_CHECK(dim < t.dim(), "npu_indexing: more indices than dimensions");
    if (bit(masks.shrink, i)) {
      t = t.select(dim, begin[i]);
      continue;
    }
    const int64_t step = strides[i];
    TORCH_CHECK_VALUE(step > 0, "npu_indexing: a stride is ", step, ", not positive");
    const c10::SymInt from = bit(masks.begin, i) ? 0 : begin[i];
    t = t.slice_symint(dim, from, bit(masks.end, i) ? t.sym_size(dim) : c10::SymInt(end[i]), step);
    dim++;
  }
  return t.clone(at::MemoryFormat::Contiguous);
}

at::Tensor sign_bits(const at::Tensor& input, int64_t rows) {
  TORCH_CHECK(input.dim() == 1, "npu_sign_bits_pack: the input has one dimension, not ", input.dim());
  const int64_t count = (input.size(0) + 7) / 8;
  TORCH_CHECK(rows > 0 && count % rows == 0, "npu_sign_bits_pack: ", count, " bytes are not ", rows, " rows");
  const at::Tensor positive = at::constant_pad_nd(input.ge(0).to(at::kInt), {0, count * 8 - input.size(0)});
  const at::Tensor weight = at::arange(8, positive.options());
  const at::Tensor shifted = positive.reshape({count, 8}).bitwise_left_shift(weight);
  return shifted.sum(1).to(at::kByte).reshape({rows, count / rows});
}

at::Tensor signs_of_bits(const at::Tensor& input, int64_t rows, at::ScalarType type) {
  TORCH_CHECK(input.dim() == 1 && rows > 0 && input.size(0) * 8 % rows == 0, "npu_sign_bits_unpack: ", input.sizes(),
              " bytes are not ", rows, " rows");
  const at::Tensor wide = input.to(at::kInt).unsqueeze(1);
  const at::Tensor bits = wide.bitwise_right_shift(at::arange(8, wide.options())).bitwise_and(1);
  return (bits * 2 - 1).to(type).reshape({rows, -1});
}

Triple adam_in_place(const AdamStep& s, const at::Scalar& power1, const at::Scalar& power2, const at::Tensor& grad,
                     bool nesterov, at::TensorList out) {
  check_step("npu_apply_adam", out, grad);
  at::Tensor var = out[0], m = out[1], v = out[2];
  const double b1 = s.beta1.toDouble(), b2 = s.beta2.toDouble();
  const double rate = s.lr.toDouble() * std::sqrt(1 - power2.toDouble()) / (1 - power1.toDouble());
  scale(m, b1).add_(grad, 1 - b1);
  scale(v, b2).addcmul_(grad, grad, 1 - b2);
  const at::Tensor top = nesterov ? m * b1 + grad * (1 - b1) : m;
  var.addcdiv_(top, v.sqrt().add_(s.epsilon), -rate);
  return {var, m, v};
}

Triple adam_w_in_place(const AdamStep& s, const at::Scalar& power1, const at::Scalar& power2, const at::Scalar& decay,
                       const at::Tensor& grad, const OptionalTensor& max_norm, bool amsgrad, bool maximize,
                       at::TensorList out) {
  check_step("npu_apply_adam_w", out, grad);
  TORCH_CHECK(!amsgrad || given(max_norm), "npu_apply_adam_w: amsgrad needs max_grad_norm");
  at::Tensor var = out[0], m = out[1], v = out[2];
  const at::Tensor g = maximize ? -grad : grad;
  const double b1 = s.beta1.toDouble(), b2 = s.beta2.toDouble(), lr = s.lr.toDouble();
  scale(m, b1).add_(g, 1 - b1);
  scale(v, b2).addcmul_(g, g, 1 - b2);
  scale(var, 1 - lr * decay.toDouble());
  const at::Tensor most = amsgrad ? at::maximum(*max_norm, v) : v;
  const at::Tensor divisor = (most / (1 - power2.toDouble() * b2)).sqrt_().add_(s.epsilon);
  var.addcdiv_(m, divisor, -lr / (1 - power1.toDouble() * b1));
  return {var, m, v};
}

Triple bert_adam_in_place(const AdamStep& s, const at::Tensor& grad, const at::Scalar& max_norm,
                          const at::Scalar& decay, const std::optional<at::Scalar>& step_size, int64_t mode,
                          at::TensorList out) {
  check_step("npu_bert_apply_adam", out, grad);
  check_number("npu_bert_apply_adam", "adam_mode", mode, {0});
  refuse_given("npu_bert_apply_adam", "step_size", step_size);
  TORCH_CHECK_NOT_IMPLEMENTED(max_norm.toDouble() <= 0,
                              "npu_bert_apply_adam: max_grad_norm is not implemented; give -1");
  at::Tensor var = out[0], m = out[1], v = out[2];
  const double b1 = s.beta1.toDouble(), b2 = s.beta2.toDouble();
  scale(m, b1).add_(grad, 1 - b1);
  scale(v, b2).addcmul_(grad, grad, 1 - b2);
  var.sub_(m / v.sqrt().add_(s.epsilon) + var * decay, s.lr);
  return {var, m, v};
}

Triple needs_out(const char* op) { TORCH_CHECK(false, op, ": there is nothing to change; give out=(var, m, v)"); }

}  // namespace npu::ops
