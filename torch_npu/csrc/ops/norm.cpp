// Normalization: batch, layer and group norm, and the five operators SyncBatchNorm is made of. Hand-written because of optional
// statistics, output masks and the statistics' dtype: float32 where the input is half or bfloat16.
#include <ATen/core/Tensor.h>
#include <ATen/native/layer_norm.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"
#include "csrc/ops/structured.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::ScalarType statistics_type(const at::Tensor& input) {
  return input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16 ? at::kFloat : input.scalar_type();
}

// The parameter, or its neutral value where the layer has none: CANN's kernels want both.
at::Tensor or_filled(const OptionalTensor& tensor, at::IntArrayRef sizes, at::ScalarType type, double value) {
  if (tensor && tensor->defined()) return *tensor;
  at::Tensor result = empty(sizes, type);
  ACLNN(aclnnInplaceFillScalar)(result, at::Scalar(value));
  return result;
}

at::Tensor when(bool wanted, const at::Tensor& model) { return wanted ? empty_like(model) : at::Tensor(); }

// Weights and statistics have the input's type, or float32 beside a 16-bit input.
void check_mixed(const at::Tensor& input, std::initializer_list<const OptionalTensor*> parameters) {
  for (const OptionalTensor* parameter : parameters) {
    if (!*parameter || !(*parameter)->defined()) continue;
    const at::ScalarType type = (*parameter)->scalar_type();
    TORCH_CHECK(type == input.scalar_type() || type == statistics_type(input), "mixed dtype: expect parameter to have ",
                "scalar type of ", statistics_type(input), ", not ", type);
  }
}

// CANN's parameter is one that is written. Statistics that are not, in evaluation, may repeat elements or be a part of the input.
OptionalTensor apart(const OptionalTensor& statistics, const at::Tensor& input, bool training) {
  if (training || !statistics || !statistics->defined()) return statistics;
  const bool plain = statistics->is_non_overlapping_and_dense() && !statistics->is_alias_of(input);
  return plain ? statistics : statistics->clone(at::MemoryFormat::Contiguous);
}

void batch_norm_into(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                     const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
                     double momentum, double eps, const at::Tensor& out, const at::Tensor& save_mean,
                     const at::Tensor& save_invstd) {
  TORCH_CHECK(training || (running_mean && running_mean->defined() && running_var && running_var->defined()),
              "running_mean and running_var must be defined in evaluation mode");
  check_mixed(input, {&weight, &bias, &running_mean, &running_var});
  if (out.numel() == 0) return;
  const int64_t channels = input.size(1);
  const at::ScalarType type = weight && weight->defined() ? weight->scalar_type() : statistics_type(input);
  ACLNN(aclnnBatchNorm)(input, or_filled(weight, {channels}, type, 1), or_filled(bias, {channels}, type, 0),
                        apart(running_mean, input, training), apart(running_var, input, training), training, momentum,
                        eps, out, save_mean, save_invstd);
}

Three batch_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                 const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training, double momentum,
                 double eps) {
  const NPUGuard guard(input.device().index());
  const at::Tensor out = empty_like(input);
  const int64_t saved = training ? input.size(1) : 0;
  const at::Tensor save_mean = empty({saved}, statistics_type(input)),
                   save_invstd = empty({saved}, statistics_type(input));
  batch_norm_into(input, weight, bias, running_mean, running_var, training, momentum, eps, out, save_mean, save_invstd);
  if (!training) return {out, empty({0}, input.scalar_type()), empty({0}, input.scalar_type())};
  return {out, save_mean, save_invstd};
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> batch_norm_out(const at::Tensor& input, const OptionalTensor& weight,
                                                                 const OptionalTensor& bias,
                                                                 const OptionalTensor& running_mean,
                                                                 const OptionalTensor& running_var, bool training,
                                                                 double momentum, double eps, at::Tensor& out,
                                                                 at::Tensor& save_mean, at::Tensor& save_invstd) {
  const NPUGuard guard(input.device().index());
  resize_out(out, input.sizes());
  resize_out(save_mean, {training ? input.size(1) : 0});
  resize_out(save_invstd, {training ? input.size(1) : 0});
  batch_norm_into(input, weight, bias, running_mean, running_var, training, momentum, eps, out, save_mean, save_invstd);
  return {out, save_mean, save_invstd};
}

Three batch_norm_legit(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                       at::Tensor& running_mean, at::Tensor& running_var, bool training, double momentum, double eps) {
  return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Three batch_norm_no_stats(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                          bool training, double momentum, double eps) {
  return batch_norm(input, weight, bias, std::nullopt, std::nullopt, training, momentum, eps);
}

Three batch_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const OptionalTensor& weight,
                          const OptionalTensor& running_mean, const OptionalTensor& running_var,
                          const OptionalTensor& save_mean, const OptionalTensor& save_invstd, bool train, double eps,
                          std::array<bool, 3> mask) {
  const NPUGuard guard(input.device().index());
  const int64_t channels = input.size(1);
  const at::ScalarType type = weight && weight->defined() ? weight->scalar_type() : statistics_type(input);
  const at::Tensor grad_input = when(mask[0], input);
  const at::Tensor grad_weight = mask[1] ? empty({channels}, type) : at::Tensor();
  const at::Tensor grad_bias = mask[2] ? empty({channels}, type) : at::Tensor();
  if (input.numel() == 0) {
    if (mask[1]) grad_weight.zero_();
    if (mask[2]) grad_bias.zero_();
    return {grad_input, grad_weight, grad_bias};
  }
  const auto statistic = [&](const OptionalTensor& given, double value) {
    return or_filled(given, {channels}, statistics_type(input), value);
  };
  const OptionalTensor none;
  ACLNN(aclnnBatchNormBackward)(grad_out, input, or_filled(weight, {channels}, type, 1), statistic(running_mean, 0),
                                statistic(running_var, 1), train ? statistic(save_mean, 0) : statistic(none, 0),
                                train ? statistic(save_invstd, 1) : statistic(none, 1), train, eps, mask, grad_input,
                                grad_weight, grad_bias);
  return {grad_input, grad_weight, grad_bias};
}

Three layer_norm(const at::Tensor& input, at::IntArrayRef normalized_shape, const OptionalTensor& weight,
                 const OptionalTensor& bias, double eps) {
  const at::Tensor none;
  at::native::_check_layer_norm_inputs(input, normalized_shape, weight ? *weight : none, bias ? *bias : none);
  check_mixed(input, {&weight, &bias});
  const NPUGuard guard(input.device().index());
  c10::DimVector sizes(input.sizes());
  for (size_t i = input.dim() - normalized_shape.size(); i < sizes.size(); ++i) sizes[i] = 1;
  const at::Tensor out = empty(input.sizes(), input.scalar_type());
  const at::Tensor mean = empty(sizes, statistics_type(input)), rstd = empty(sizes, statistics_type(input));
  if (input.numel()) ACLNN(aclnnLayerNorm)(input, normalized_shape, weight, bias, eps, out, mean, rstd);
  return {out, mean, rstd};
}

Three layer_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, at::IntArrayRef normalized_shape,
                          const at::Tensor& mean, const at::Tensor& rstd, const OptionalTensor& weight,
                          const OptionalTensor& bias, std::array<bool, 3> mask) {
  const NPUGuard guard(input.device().index());
  const at::ScalarType type = weight && weight->defined() ? weight->scalar_type() : input.scalar_type();
  const at::Tensor grad_input = mask[0] ? empty(input.sizes(), input.scalar_type()) : at::Tensor();
  const at::Tensor grad_weight = mask[1] ? empty(normalized_shape, type) : at::Tensor();
  const at::Tensor grad_bias = mask[2] ? empty(normalized_shape, type) : at::Tensor();
  if (input.numel()) {
    ACLNN(aclnnLayerNormBackward)(grad_out, input, normalized_shape, mean, rstd, weight, bias, mask, grad_input,
                                  grad_weight, grad_bias);
  } else {
    if (mask[1]) grad_weight.zero_();
    if (mask[2]) grad_bias.zero_();
  }
  return {grad_input, grad_weight, grad_bias};
}

Three group_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, int64_t n,
                 int64_t c, int64_t hxw, int64_t group, double eps) {
  const NPUGuard guard(input.device().index());
  const at::Tensor x = input.contiguous(input.suggest_memory_format());  // CANN's takes no other strides
  const at::Tensor out = empty_like(x);
  // As PyTorch's: the input's type, or that of float32 parameters beside a 16-bit input.
  const at::ScalarType type = weight && weight->defined() ? weight->scalar_type() : input.scalar_type();
  const at::Tensor mean = empty({n, group}, type), rstd = empty({n, group}, type);
  if (input.numel()) ACLNN(aclnnGroupNorm)(x, weight, bias, n, c, hxw, group, eps, out, mean, rstd);
  return {x.is_same(input) ? out : empty_like(input).copy_(out), mean, rstd};
}

Three group_norm_backward(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean,
                          const at::Tensor& rstd, const OptionalTensor& weight, int64_t n, int64_t c, int64_t hxw,
                          int64_t group, std::array<bool, 3> mask) {
  const NPUGuard guard(input.device().index());
  const at::ScalarType type = weight && weight->defined() ? weight->scalar_type() : input.scalar_type();
  const at::Tensor grad_input = when(mask[0], input);
  const at::Tensor grad_weight = mask[1] ? empty({c}, type) : at::Tensor();
  const at::Tensor grad_bias = mask[2] ? empty({c}, type) : at::Tensor();
  if (input.numel()) {
    ACLNN(aclnnGroupNormBackward)(grad_out, input, mean, rstd, weight, n, c, hxw, group, mask, grad_input, grad_weight,
                                  grad_bias);
  } else {
    if (mask[1]) grad_weight.zero_();
    if (mask[2]) grad_bias.zero_();
  }
  return {grad_input, grad_weight, grad_bias};
}

std::tuple<at::Tensor, at::Tensor> batch_norm_stats(const at::Tensor& input, double eps) {
  const NPUGuard guard(input.device().index());
  const at::Tensor mean = empty({input.size(1)}, statistics_type(input)),
                   invstd = empty({input.size(1)}, statistics_type(input));
  ACLNN(aclnnBatchNormStats)(input, eps, mean, invstd);
  return {mean, invstd};
}

at::Tensor& batch_norm_elemt_out(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                 const at::Tensor& mean, const at::Tensor& invstd, double eps, at::Tensor& out) {
  const NPUGuard guard(input.device().index());
  resize_out(out, input.sizes());
  const int64_t channels = input.size(1);
  ACLNN(aclnnBatchNormElemt)(input, or_filled(weight, {channels}, statistics_type(input), 1),
                             or_filled(bias, {channels}, statistics_type(input), 0), mean, invstd, eps, out);
  return out;
}

at::Tensor batch_norm_elemt(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                            const at::Tensor& mean, const at::Tensor& invstd, double eps) {
  const NPUGuard guard(input.device().index());
  at::Tensor out = empty_like(input);
  return batch_norm_elemt_out(input, weight, bias, mean, invstd, eps, out);
}

std::tuple<at::Tensor, at::Tensor> batch_norm_gather_stats_with_counts(
    const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd, const OptionalTensor& running_mean,
    const OptionalTensor& running_var, double momentum, double eps, const at::Tensor& counts) {
  const NPUGuard guard(input.device().index());
  const at::Tensor mean_all = empty({mean.size(1)}, mean.scalar_type()),
                   invstd_all = empty({mean.size(1)}, mean.scalar_type());
  ACLNN(aclnnBatchNormGatherStatsWithCounts)(input, mean, invstd, running_mean, running_var, momentum, eps, counts,
                                             mean_all, invstd_all);
  return {mean_all, invstd_all};
}

std::tuple<at::Tensor, at::Tensor> batch_norm_gather_stats(const at::Tensor& input, const at::Tensor& mean,
                                                           const at::Tensor& invstd, const OptionalTensor& running_mean,
                                                           const OptionalTensor& running_var, double momentum,
                                                           double eps, int64_t count) {
  const NPUGuard guard(input.device().index());
  at::Tensor counts = empty({mean.size(0)}, mean.scalar_type());
  counts.fill_(count);
  return batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> batch_norm_backward_reduce(
    const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& invstd,
    const OptionalTensor& weight, bool input_g, bool weight_g, bool bias_g) {
  const NPUGuard guard(input.device().index());
  const int64_t channels = input.size(1);
  const at::ScalarType type = weight && weight->defined() ? weight->scalar_type() : statistics_type(input);
  const auto statistic = [&](bool wanted, at::ScalarType t) { return wanted ? empty({channels}, t) : at::Tensor(); };
  const at::Tensor sum_dy = statistic(input_g, mean.scalar_type()), sum_dy_xmu = statistic(input_g, mean.scalar_type());
  const at::Tensor grad_weight = statistic(weight_g, type), grad_bias = statistic(bias_g, type);
  ACLNN(aclnnBatchNormReduceBackward)(grad_out, input, mean, invstd, or_filled(weight, {channels}, type, 1), input_g,
                                      weight_g, bias_g, sum_dy, sum_dy_xmu, grad_weight, grad_bias);
  return {sum_dy, sum_dy_xmu, grad_weight, grad_bias};
}

at::Tensor batch_norm_backward_elemt(const at::Tensor& grad_out, const at::Tensor& input, const at::Tensor& mean,
                                     const at::Tensor& invstd, const OptionalTensor& weight, const at::Tensor& sum_dy,
                                     const at::Tensor& sum_dy_xmu, const at::Tensor& count) {
  const NPUGuard guard(input.device().index());
  const at::Tensor grad_input = empty_like(input);
  ACLNN(aclnnBatchNormElemtBackward)(grad_out, input, mean, invstd,
                                     or_filled(weight, {input.size(1)}, statistics_type(input), 1), sum_dy, sum_dy_xmu,
                                     count, grad_input);
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_batch_norm", NPU_FN(batch_norm));
  m.impl("native_batch_norm.out", NPU_FN(batch_norm_out));
  m.impl("_native_batch_norm_legit", NPU_FN(batch_norm_legit));
  m.impl("_native_batch_norm_legit.no_stats", NPU_FN(batch_norm_no_stats));
  m.impl("native_batch_norm_backward", NPU_FN(batch_norm_backward));
  m.impl("native_layer_norm", NPU_FN(layer_norm));
  m.impl("native_layer_norm_backward", NPU_FN(layer_norm_backward));
  m.impl("native_group_norm", NPU_FN(group_norm));
  m.impl("native_group_norm_backward", NPU_FN(group_norm_backward));
  m.impl("batch_norm_stats", TORCH_FN(batch_norm_stats));
  m.impl("batch_norm_elemt", NPU_FN(batch_norm_elemt));
  m.impl("batch_norm_elemt.out", NPU_FN(batch_norm_elemt_out));
  m.impl("batch_norm_gather_stats", NPU_FN(batch_norm_gather_stats));
  m.impl("batch_norm_gather_stats_with_counts", NPU_FN(batch_norm_gather_stats_with_counts));
  m.impl("batch_norm_backward_reduce", NPU_FN(batch_norm_backward_reduce));
  m.impl("batch_norm_backward_elemt", NPU_FN(batch_norm_backward_elemt));
}

}  // namespace npu
