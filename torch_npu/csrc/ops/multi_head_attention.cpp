// Inference paths of torch.nn.MultiheadAttention and TransformerEncoderLayer, composed of the device's operators. What it is not:
// scaled_dot_product_attention (scaled_dot_product.cpp) or nested tensors (nested.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/ops/_transformer_encoder_layer_fwd_native.h>
#include <ATen/ops/linear.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/ops/device_check.h"

namespace npu {
namespace {

// PyTorch's mask types: 0 (L, L) for every head, 1 (B, L) padding, 2 (B, heads, L, L). A bool mask says where not to attend, a
// floating-point one is added to the scores.
at::Tensor broadcast_mask(const at::Tensor& mask, std::optional<int64_t> mask_type, int64_t batch, int64_t length) {
  switch (mask_type.value_or(0)) {
    case 0:
      return mask.view({1, 1, length, length});
    case 1:
      return mask.view({batch, 1, 1, length});
    default:
      return mask.dim() == 4 ? mask : mask.view({batch, -1, length, length});
  }
}

std::tuple<at::Tensor, at::Tensor> multi_head_attention(const at::Tensor& query, const at::Tensor& key,
                                                        const at::Tensor& value, int64_t embed_dim, int64_t num_head,
                                                        const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                                        const at::Tensor& proj_weight, const at::Tensor& proj_bias,
                                                        const std::optional<at::Tensor>& mask, bool need_weights,
                                                        bool average_attn_weights, std::optional<int64_t> mask_type) {
  TORCH_CHECK(query.dim() == 3 && key.dim() == 3 && value.dim() == 3, "expected 3-D `query`, `key` and `value`, got ",
              query.dim(), "-D, ", key.dim(), "-D and ", value.dim(), "-D tensors");
  TORCH_CHECK(embed_dim == query.size(2), "passed-in embed_dim ", embed_dim, " didn't match last dim of query ",
              query.size(2));
  TORCH_CHECK(embed_dim % num_head == 0, "num_head ", num_head, " does not divide embed_dim ", embed_dim);
  const NPUGuard guard(query.device().index());
  const int64_t batch = query.size(0), length = query.size(1), head_dim = embed_dim / num_head;
  const auto heads = [&](const at::Tensor& x) {
    return x.view({x.size(0), x.size(1), num_head, head_dim}).transpose(1, 2);
  };
  const std::vector<at::Tensor> weights = qkv_weight.chunk(3, 0), biases = qkv_bias.chunk(3, 0);
  const at::Tensor q =
      heads(at::linear(query, weights[0], biases[0])).mul(1.0 / std::sqrt(static_cast<double>(head_dim)));
  const at::Tensor k = heads(at::linear(key, weights[1], biases[1]));
  const at::Tensor v = heads(at::linear(value, weights[2], biases[2]));
  at::Tensor scores = q.matmul(k.transpose(-2, -1));
  if (mask && mask->defined()) {
    const at::Tensor wide = broadcast_mask(*mask, mask_type, batch, length);
    scores = wide.scalar_type() == at::kBool ? scores.masked_fill(wide, -std::numeric_limits<double>::infinity())
                                             : scores.add(wide);
  }
  scores = scores.softmax(-1);
  const at::Tensor joined = scores.matmul(v).transpose(1, 2).reshape({batch, length, embed_dim});
  const at::Tensor result = at::linear(joined, proj_weight, proj_bias);
  if (!need_weights) return {result, at::Tensor()};
  return {result, average_attn_weights ? scores.mean(1) : scores};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_native_multi_head_attention", NPU_FN(multi_head_attention));
  m.impl("_transformer_encoder_layer_fwd", NPU_FN(at::native::transformer_encoder_layer_forward));
}

}  // namespace npu
