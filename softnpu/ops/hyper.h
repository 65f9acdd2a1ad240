// Hyper connections: streams [.., n, columns] of a network, mixed with the result of a layer. Sums are fp32. Who calls it: expressions of
// ops/aclnn.yaml that name it as their header.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace softnpu::ops::kernels {

// weights of streams [.., n, n] (none: as they are), of the layer's result [.., columns] in each stream [.., n]
struct StreamMix {
  const std::optional<at::Tensor>& between;
  const at::Tensor &result, &of_result;
};
void mix_streams(const at::Tensor& x, const StreamMix& mix, at::Tensor& out);
struct StreamMixGradients {
  at::Tensor &x, &between, &result, &of_result;
};
void mix_streams_backward(const at::Tensor& gradient, const at::Tensor& x, const StreamMix& mix,
                          const StreamMixGradients& made);

// The weights themselves, of the streams normalized together: phi [outputs, n * columns], alpha [2 or 3], bias [outputs].
struct StreamWeights {
  const at::Tensor &phi, &alpha, &bias;
  const std::optional<at::Tensor>& gamma;
  double norm_eps, eps;
};
struct StreamWeightsMade {
  at::Tensor &input, &post, &between, &inv_rms, &mix, &pre;
};
void stream_weights(const at::Tensor& x, const StreamWeights& weights, const StreamWeightsMade& made);

// Gradients of stream_weights, of what it made. `x_post`: a gradient of the streams that is added.
struct StreamWeightGradients {
  const at::Tensor &input, &post, &between;
  const std::optional<at::Tensor>& x_post;
};
struct StreamWeightsKept {
  const at::Tensor &inv_rms, &mix, &pre, &post;
};
struct StreamWeightGradientsMade {
  at::Tensor &x, &phi, &alpha, &bias, &gamma;
};
void stream_weights_backward(const at::Tensor& x, const at::Tensor& phi, const at::Tensor& alpha,
                             const std::optional<at::Tensor>& gamma, double eps, const StreamWeightGradients& gradients,
                             const StreamWeightsKept& kept, const StreamWeightGradientsMade& made);

// A softmax of rows whose columns and rows are divided by their sums in turn; the norms and sums of all steps where they are wanted, and the
// gradient of those.
void check_doubly_stochastic(const at::Tensor& x, int64_t rounds, const at::Tensor& out, const at::Tensor& norms,
                             const at::Tensor& sums);
void doubly_stochastic(const at::Tensor& x, double eps, int64_t rounds, at::Tensor& out, at::Tensor& norms,
                       at::Tensor& sums);
void check_doubly_stochastic_backward(const at::Tensor& grad, const at::Tensor& norms, const at::Tensor& sums,
                                      const at::Tensor& out);
void doubly_stochastic_backward(const at::Tensor& grad, const at::Tensor& norms, const at::Tensor& sums,
                                at::Tensor& out);

}  // namespace softnpu::ops::kernels
