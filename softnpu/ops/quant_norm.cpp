// RMS normalization with quantization behind it: see fused_quant.h.
#include <ATen/ops/where.h>

#include "softnpu/ops/fused_quant.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {
namespace {

std::vector<int64_t> last_dims(const Tensor& x, const Tensor& gamma) {
  TORCH_CHECK(gamma.dim() > 0 && gamma.dim() <= x.dim(), "a gamma of ", gamma.sizes(), " for an input of ", x.sizes());
  std::vector<int64_t> dims;
  for (int64_t d = x.dim() - gamma.dim(); d < x.dim(); d++) dims.push_back(d);
  return dims;
}

// gamma may have a dimension of one before its columns.
Tensor flat(const Tensor& gamma) { return gamma.dim() == 2 && gamma.size(0) == 1 ? gamma[0] : gamma; }

Tensor quantized(const Tensor& y, const StaticQuant& q) {
  TORCH_CHECK(given(q.scale), "quantization needs a scale");
  const auto beside = [&](const Tensor& t) { return t.numel() == 1 ? wide(t).reshape({}) : wide(t); };
  const Tensor scaled = q.divide ? y / beside(*q.scale) : y * beside(*q.scale);
  return given(q.offset) ? scaled + beside(*q.offset) : scaled;
}

}  // namespace

void rms_norm_quant(const Tensor& x1, const Maybe& x2, const Normed& norm, const StaticQuant& first,
                    const StaticQuant& second, Tensor& y1, Tensor& y2, Tensor& sum, Tensor& rstd, Tensor& plain) {
  const Tensor x = given(x2) ? wide(x1) + wide(*x2) : wide(x1), gamma = flat(norm.gamma);
  const Tensor r = x.square().mean(last_dims(x, gamma), true).add_(norm.eps).rsqrt_();
  Tensor y = x * r * wide(gamma);
  if (plain.defined()) put_if_fits(plain, y);
  if (given(norm.beta)) y = y + wide(flat(*norm.beta));
  if (sum.defined()) put(sum, x);
  if (rstd.defined()) put_if_fits(rstd, r);
  put_rounded(y1, quantized(y, first));
  if (y2.defined() && given(second.scale)) {
    put_rounded(y2, quantized(y, second));
  } else if (y2.defined()) {
    moved_bits(y2).zero_();
  }
}

void rms_norm_dynamic_quant(const Tensor& x1, const Tensor& x2, const Normed& norm, const Maybe& smooth1,
                            const Maybe& smooth2, at::ArrayRef<bool> wanted, Tensor& y1, Tensor& y2, Tensor& sum,
                            Tensor& scale1, Tensor& scale2) {
  const Tensor x = wide(x1) + wide(x2);
  const Tensor r = x.square().mean(-1, true).add_(norm.eps).rsqrt_();
  Tensor y = x * r * wide(norm.gamma);
  if (given(norm.beta)) y = y + wide(*norm.beta);
  put(sum, x);
  const auto one = [&](bool asked, const Maybe& smooth, Tensor& out, Tensor& scale) {
    if (!asked || !out.defined() || (out.numel() != y.numel() && !packs(out, y))) return;
    const Tensor found = put_dynamic_rows(out, given(smooth) ? y * wide(*smooth) : y);
    if (scale.defined()) put_if_fits(scale, found);
  };
  one(wanted.empty() || wanted[0], smooth1, y1, scale1);
  one(wanted.empty() ? given(smooth1) && given(smooth2) : wanted.size() > 1 && wanted[1], smooth2, y2, scale2);
}

void rms_norm_backward_quant(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& gamma,
                             const StaticQuant& quant, Tensor& dx, Tensor& dgamma) {
  const Tensor value = wide(x), g = wide(dy);
  const auto dims = last_dims(value, gamma);
  std::vector<int64_t> shape = x.sizes().vec();
  for (int64_t d : dims) shape[d] = 1;
  const Tensor r = wide(rstd).reshape(shape), normed = value * r, scaled = g * wide(gamma);
  put_rounded(dx, quantized((scaled - normed * (scaled * normed).mean(dims, true)) * r, quant));
  const Tensor d = g * normed;
  put(dgamma, x.dim() == gamma.dim() ? d : d.sum_to_size(gamma.sizes()));
}

}  // namespace softnpu::ops::kernels
