// Hyper connections before a layer: the weights that streams of residuals are mixed with, and their doubly stochastic form. Compositions of PyTorch's
// operators in float32; PyTorch derives their gradients. What comes behind the layer is hyper_mixed.cpp. Who uses it: rows of ops/npu.yaml.
#pragma once

#include "csrc/ops/npu/compose.h"

namespace npu::ops {

struct StreamWeights {
  const at::Tensor &x, &phi, &alpha, &bias;
  const OptionalTensor& gamma;
};
// The layer's input, the weights behind it and between streams, and with `all` 1 / rms, the product and the weights before it.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> stream_weights(
    const StreamWeights& of, double norm_eps, double eps, bool all);
struct StreamGradients {
  const at::Tensor &input, &post, &res;
  const OptionalTensor& x_post;  // of x, from elsewhere
};
struct StreamKept {
  const at::Tensor &inv_rms, &mix, &pre, &post;
};
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> stream_weights_backward(
    const at::Tensor& x, const at::Tensor& phi, const at::Tensor& alpha, const StreamGradients& grad,
    const StreamKept& kept, const OptionalTensor& gamma, double eps);

Triple doubly_stochastic(const at::Tensor& x, double eps, const c10::SymInt& steps, bool all);
void check_doubly_stochastic_backward(const at::Tensor& grad, const at::Tensor& norm, const at::Tensor& sum);

}  // namespace npu::ops
