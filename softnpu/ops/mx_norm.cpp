// Quantization behind RMS normalization and behind products with small matrices: see mx.h.
#include <ATen/ops/matmul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/where.h>

#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {

using namespace mx;

void need_mx_norm(const Tensor& x1, const Maybe& x2, const MxNorm& norm, const MxForm& form, const Tensor& y,
                  const Tensor& sum, const Tensor& scale, const Tensor& rstd) {
  TORCH_CHECK(x1.dim() > 0, "x has no dimensions");
  const int64_t columns = x1.size(-1);
  need_form(form, y, {0, 1});
  need_floating("x", x1);
  need_sizes("gamma", norm.gamma, {columns});
  if (given(norm.beta)) {
    need_sizes("beta", *norm.beta, {columns});
    TORCH_CHECK(norm.beta->scalar_type() == norm.gamma.scalar_type(), "beta is ", norm.beta->scalar_type(), ", gamma ",
                norm.gamma.scalar_type());
  }
  if (given(x2)) {
    need_sizes("x2", *x2, x1.sizes());
    need_sizes("xOut", sum, x1.sizes());
  }
  need_sizes("yOut", y, x1.sizes());
  need_sizes("mxscaleOut", scale, scale_sizes(x1.sizes(), x1.dim() - 1, 32));
  if (!norm.rstd) return;
  std::vector<int64_t> sizes = x1.sizes().vec();
  sizes.back() = 1;
  TORCH_CHECK(rstd.defined(), "rstdOut is null, and outputRstd is set");
  need_sizes("rstdOut", rstd, sizes);
}

void mx_norm(const Tensor& x1, const Maybe& x2, const MxNorm& norm, const MxForm& form, Tensor& y, Tensor& sum,
             Tensor& scale, Tensor& rstd) {
  if (x1.numel() == 0) return;
  const Tensor x = given(x2) ? floats(x1) + floats(*x2) : floats(x1);
  if (given(x2)) put(sum, x);
  const Tensor root = at::rsqrt(x.square().mean(-1, true) + norm.eps);
  Tensor value = x * root * floats(norm.gamma);
  if (given(norm.beta)) value = value + floats(*norm.beta);
  put_blocks(y, scale, value, value.dim() - 1, element(y.scalar_type()), form);
  if (norm.rstd) put(rstd, root);
}

void need_rotated(const Tensor& x, const Tensor& rotation, const Rotation& how, const MxForm& form, const Tensor& y,
                  const Tensor& scale) {
  need_floating("x", x);
  TORCH_CHECK(x.dim() > 0 && dim_of("axis", x, how.axis) == x.dim() - 1, "axis ", how.axis, " is not the last");
  TORCH_CHECK(!how.turned, "trans is set; only false is implemented");
  TORCH_CHECK(rotation.dim() == 2, "rotation of ", rotation.sizes(),
              " is not implemented: its documentation has the formula of one [k, k] alone");
  const int64_t k = rotation.size(0), n = x.size(-1);
  TORCH_CHECK(rotation.size(1) == k && k > 0 && n % k == 0, "rotation of ", rotation.sizes(), " for x of ", x.sizes());
  TORCH_CHECK(rotation.scalar_type() == x.scalar_type(), "rotation is ", rotation.scalar_type(), ", x ",
              x.scalar_type());
  if (given(how.alpha)) need_sizes("alpha", *how.alpha, {1});
  if (is_small(y.scalar_type())) {
    need_form(form, y, {0, 1, 2});
    refuse_rounded_exponent(form);
    need_sizes("yOut", y, x.sizes());
    TORCH_CHECK(scale.scalar_type() == at::kFloat8_e8m0fnu, "scaleOut is ", scale.scalar_type(),
                ", float8_e8m0fnu is expected");
    return need_sizes("scaleOut", scale, scale_sizes(x.sizes(), x.dim() - 1, 32));
  }
  TORCH_CHECK(!given(how.alpha) && form.alg == 0 && form.largest == 0,
              "alpha, scaleAlg and dstTypeMax go with floating elements");
  TORCH_CHECK(form.round.empty() || form.round == "rint" || form.round == "floor" || form.round == "round",
              "the rounding \"", std::string(form.round), "\" is not rint, floor or round");
  TORCH_CHECK(scale.scalar_type() == at::kFloat, "scaleOut is ", scale.scalar_type(), ", float32 is expected");
  TORCH_CHECK(x.dim() == 2, "x has ", x.dim(), " dimensions, two are expected with integers");
  const bool eight = y.scalar_type() == at::kInt;
  TORCH_CHECK(!eight || n % 8 == 0, n, " columns are no multiple of 8");
  need_sizes("yOut", y, {x.size(0), eight ? n / 8 : n});
  need_sizes("scaleOut", scale, {x.size(0)});
}

void rotated_quant(const Tensor& x, const Tensor& rotation, const Rotation& how, const MxForm& form, Tensor& y,
                   Tensor& scale) {
  if (x.numel() == 0) return;
  const int64_t k = rotation.size(0);
  Tensor value = at::matmul(floats(x).reshape({-1, k}), floats(rotation)).reshape(x.sizes());
  if (is_small(y.scalar_type())) {
    const double alpha = given(how.alpha) ? floats(*how.alpha).item<double>() : 0;
    if (alpha > 0 && alpha < 1) {
      const Tensor limit = spread(block_maxima(value, x.dim() - 1, 32), x.dim() - 1, 32, x.size(-1)) * alpha;
      value = at::where(value.gt(limit), limit, at::where(value.lt(-limit), -limit, value));
    }
    return put_blocks(y, scale, value, x.dim() - 1, element(y.scalar_type()), form);
  }
  const Tensor step = value.abs().amax(-1, true) / largest_of(y, value);
  value = value / step.masked_fill(step.eq(0), 1);
  if (form.round == "floor") value = value.floor();
  if (form.round == "round") value = (value.abs() + 0.5).floor() * value.sign();
  put_rounded(y, value);
  put(scale, step.squeeze(-1));
}

namespace {

MxForm kronecker_form(double largest) { return {.alg = largest > 0 ? 2 : 0, .largest = largest}; }

}  // namespace

void need_kronecker(const Tensor& x, const Tensor& left, const Tensor& right, double clip, double largest,
                    const Tensor& y, const Tensor& scale) {
  need_floating("x", x);
  TORCH_CHECK(x.dim() == 3, "x has ", x.dim(), " dimensions, three are expected");
  need_sizes("kroneckerP1", left, {x.size(1), x.size(1)});
  TORCH_CHECK(clip > 0 && clip <= 1, "clipRatio is above 0 and at most 1, not ", clip);
  const int64_t rows = x.size(0), columns = x.size(1) * x.size(2);
  const bool four = y.scalar_type() == at::ScalarType::Float4_e2m1fn_x2;
  if (!four || right.numel() > 0) need_sizes("kroneckerP2", right, {x.size(2), x.size(2)});
  if (four) {
    const MxForm form = kronecker_form(largest);
    need_form(form, y, {0, 2});
    refuse_rounded_exponent(form);
    need_sizes("out", y, {rows, columns});
    TORCH_CHECK(scale.scalar_type() == at::kFloat8_e8m0fnu, "quantScale is of ", scale.scalar_type(),
                ", float8_e8m0fnu goes with 4-bit floats");
    return need_sizes("quantScale", scale, scale_sizes({rows, columns}, 1, 32));
  }
  TORCH_CHECK(y.scalar_type() == at::kInt, "out is of ", y.scalar_type());
  TORCH_CHECK(largest == 0, "dstTypeMax ", largest, " goes with 4-bit floats");
  TORCH_CHECK(scale.scalar_type() == at::kFloat, "quantScale is of ", scale.scalar_type(), ", float32 goes with int4");
  TORCH_CHECK(x.size(2) % 8 == 0, "the last dimension of x, ", x.size(2), ", is a multiple of 8");
  need_sizes("out", y, {rows, x.size(1), x.size(2) / 8});
  need_sizes("quantScale", scale, {rows});
}

void kronecker_quant(const Tensor& x, const Tensor& left, const Tensor& right, double clip, double largest, Tensor& y,
                     Tensor& scale) {
  if (x.numel() == 0) return;
  const Tensor inner = right.numel() > 0 ? at::matmul(floats(x), floats(right)) : floats(x);
  const Tensor turned = at::matmul(floats(left), inner);
  if (is_small(y.scalar_type())) {
    return put_blocks(y, scale, turned.flatten(1), 1, element(y.scalar_type()), kronecker_form(largest));
  }
  const Tensor step = turned.abs().amax({1, 2}, true) / (7 / clip);
  put_rounded(y, turned / step.masked_fill(step.eq(0), 1));
  put(scale, step.flatten());
}

}  // namespace softnpu::ops::kernels
