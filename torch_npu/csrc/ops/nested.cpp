// Strided nested tensors (torch.nested, and what torch.nn.TransformerEncoder makes of padded sequences): the operators whose
// kernels in PyTorch look into memory or exist by device, composed of the device's operators. What it is not: the others, which
// are PyTorch's own compositions, registered by tools/codegen/nested.py. Jagged ones are a Python class of PyTorch's over dense
// tensors. Sizes and offsets are CPU tensors always; the values lie one after the other in one buffer.
#include <ATen/NestedTensorImpl.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_jagged_to_padded_dense_forward_native.h>
#include <ATen/ops/_native_multi_head_attention.h>
#include <ATen/ops/_nested_tensor_from_mask_left_aligned_native.h>
#include <ATen/ops/_nested_tensor_from_mask_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_padded_dense_to_jagged_forward_native.h>
#include <ATen/ops/_transformer_encoder_layer_fwd_native.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/type_name.h"
#include "csrc/ops/device_check.h"

namespace npu {
namespace {

using at::native::NestedTensorImpl;

at::Tensor wrap(const at::Tensor& values, const at::Tensor& sizes) {
  const at::Tensor buffer = values.reshape({-1}).contiguous();
  // A nested tensor takes its buffer for the whole of its memory.
  const bool whole = buffer.storage_offset() == 0 && buffer.storage().nbytes() == buffer.nbytes();
  return at::detail::make_tensor<NestedTensorImpl>(whole ? buffer : buffer.clone(), sizes);
}

at::Tensor buffer_of(const at::Tensor& nested) { return at::native::get_nested_tensor_impl(nested)->get_buffer(); }

// The dense tensor's beginnings, of these sizes.
at::Tensor from_padded(const at::Tensor& padded, const at::Tensor& sizes, bool transform_0213) {
  TORCH_CHECK(sizes.is_cpu() && sizes.dim() == 2 && sizes.scalar_type() == at::kLong,
              "_nested_from_padded: expected the sizes as a 2-D torch.int64 tensor on the CPU, got ", type_name(sizes),
              " of ", sizes.dim(), " dimensions on ", sizes.device());
  const NPUGuard guard(padded.device().index());
  at::Tensor dense = padded;
  if (transform_0213) dense = padded.transpose(1, 2).reshape({padded.size(0), padded.size(2), -1});
  TORCH_CHECK(dense.dim() == sizes.size(1) + 1 && dense.size(0) == sizes.size(0),
              "_nested_from_padded: a tensor of shape ", dense.sizes(), " has no ", sizes.size(0), " parts of ",
              sizes.size(1), " dimensions");
  const auto size = sizes.accessor<int64_t, 2>();
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < sizes.size(0); ++i) {
    at::Tensor part = dense.select(0, i);
    for (int64_t d = 0; d < part.dim(); ++d) part = part.narrow(d, 0, size[i][d]);
    parts.push_back(part.reshape({-1}));
  }
  return wrap(parts.empty() ? dense.reshape({-1}) : at::cat(parts), sizes.clone());
}

// How many rows of how many elements are normalized, after PyTorch's checks.
std::pair<int64_t, int64_t> rows_of(const at::Tensor& input, at::IntArrayRef shape) {
  const NestedTensorImpl* impl = at::native::get_nested_tensor_impl(input);
  TORCH_CHECK(!shape.empty(),
              "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
              "element, but got normalized_shape = ",
              shape);
  const auto dims = static_cast<int64_t>(shape.size());
  int64_t n = 1;
  for (int64_t i = 0; i < dims; ++i) {
    const std::optional<int64_t> size = impl->opt_size(i - dims);
    TORCH_CHECK(size, "normalized_shape extends into irregular dimensions for the nested tensor");
    TORCH_CHECK(shape[i] == *size, "The shape at dimension ", i, " of normalized_shape doesn't match the input");
    n *= shape[i];
  }
  return {n ? input.numel() / n : 0, n};
}

at::Tensor flat(const std::optional<at::Tensor>& weight) {
  return weight && weight->defined() ? weight->reshape({-1}) : at::Tensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& input, at::IntArrayRef shape,
                                                          const std::optional<at::Tensor>& weight,
                                                          const std::optional<at::Tensor>& bias, double eps) {
  TORCH_CHECK_VALUE(weight && bias, "NestedTensor layer_norm requires weight and bias");
  TORCH_CHECK(!weight->is_nested() && !bias->is_nested(), "NestedTensor weight and bias not supported for layer_norm");
  const auto [m, n] = rows_of(input, shape);
  const auto [out, mean, rstd] =
      at::native_layer_norm(buffer_of(input).view({m, n}), at::IntArrayRef(n), flat(weight), flat(bias), eps);
  return {wrap(out, at::native::get_nested_sizes(input)), mean.reshape({m}), rstd.reshape({m})};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(const at::Tensor& grad, const at::Tensor& input,
                                                                   at::IntArrayRef shape, const at::Tensor& mean,
                                                                   const at::Tensor& rstd,
                                                                   const std::optional<at::Tensor>& weight,
                                                                   const std::optional<at::Tensor>& bias,
                                                                   std::array<bool, 3> mask) {
  const auto [m, n] = rows_of(input, shape);
  auto [grad_input, grad_weight, grad_bias] =
      at::native_layer_norm_backward(buffer_of(grad).view({m, n}), buffer_of(input).view({m, n}), at::IntArrayRef(n),
                                     mean.view({m, 1}), rstd.view({m, 1}), flat(weight), flat(bias), mask);
  if (grad_weight.defined()) grad_weight = grad_weight.view(shape);
  if (grad_bias.defined()) grad_bias = grad_bias.view(shape);
  return {mask[0] ? wrap(grad_input, at::native::get_nested_sizes(input)) : at::Tensor(), grad_weight, grad_bias};
}

void check_sum(const at::Tensor& self, at::OptionalIntArrayRef dims) {
  TORCH_CHECK(dims && dims->size() == 1, "NestedTensor only allows reduction of a single dimension for now.");
  const int64_t dim = at::maybe_wrap_dim((*dims)[0], self.dim());
  TORCH_CHECK(dim == self.dim() - 1,
              "NestedTensor can only be reduced across the last dimension for now got dimension ", dim, " instead.");
}

at::Tensor sum(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
               std::optional<at::ScalarType> dtype) {
  check_sum(self, dims);
  TORCH_CHECK(keepdim, "NestedTensor always requires keepdim=True for now.");
  TORCH_CHECK(!dtype, "NestedTensor does not support dtype argument for now.");
  const std::vector<at::Tensor> parts = self.unbind();
  if (parts.empty()) return self;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& part : parts) sums.push_back(part.sum(-1, false, part.scalar_type()).reshape({-1}));
  at::Tensor sizes = at::native::get_nested_sizes(self).clone();
  sizes.select(1, -1).fill_(1);
  return wrap(at::cat(sums), sizes);
}

at::Tensor sum_backward(const at::Tensor& grad, const at::Tensor& self, at::OptionalIntArrayRef, bool) {
  const std::vector<at::Tensor> grads = grad.unbind(), parts = self.unbind();
  std::vector<at::Tensor> wide;
  for (size_t i = 0; i < parts.size(); ++i) wide.push_back(grads[i].expand_as(parts[i]).reshape({-1}));
  return parts.empty() ? self : wrap(at::cat(wide), at::native::get_nested_sizes(self).clone());
}

// Of sequences of different lengths: padded, attended with the padding masked, and closed up again.
std::tuple<at::Tensor, at::Tensor> multi_head_attention(const at::Tensor& query, const at::Tensor& key,
                                                        const at::Tensor& value, int64_t embed_dim, int64_t num_head,
                                                        const at::Tensor& qkv_weight, const at::Tensor& qkv_bias,
                                                        const at::Tensor& proj_weight, const at::Tensor& proj_bias,
                                                        const std::optional<at::Tensor>& mask, bool need_weights,
                                                        bool average_attn_weights, std::optional<int64_t>) {
  TORCH_CHECK(!mask || !mask->defined(), "NestedTensor with mask is not supported yet");
  TORCH_CHECK(key.is_same(query) && value.is_same(query),
              "npu: nested tensors attend to themselves here: `query`, `key` and `value` have to be one tensor");
  TORCH_CHECK(query.dim() == 3, "expected 3-D `query`, got ", query.dim(), "-D tensor");
  const at::Tensor sizes = at::native::get_nested_sizes(query);
  const at::Tensor padded = query.to_padded_tensor(0);
  const at::Tensor lengths = sizes.select(1, 0).to(padded.device());
  const at::Tensor places = at::arange(padded.size(1), lengths.options());
  const at::Tensor padding = places.unsqueeze(0).ge(lengths.unsqueeze(1));
  auto [out, weights] =
      at::_native_multi_head_attention(padded, padded, padded, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight,
                                       proj_bias, padding, need_weights, average_attn_weights, /*mask_type=*/1);
  if (need_weights) {  // nothing attends from where there is nothing
    const at::Tensor rows = average_attn_weights ? padding.unsqueeze(-1) : padding.unsqueeze(1).unsqueeze(-1);
    weights = weights.masked_fill(rows, 0);
  }
  return {from_padded(out, sizes, false), weights};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_nested_from_padded", TORCH_FN(from_padded));
  m.impl("_nested_view_from_buffer", TORCH_FN(at::native::_nested_view_from_buffer));
  // PyTorch's of the CPU are compositions, with a look at the offsets for each row.
  m.impl("_jagged_to_padded_dense_forward", NPU_FN(at::native::_jagged_to_padded_dense_forward_cpu));
  m.impl("_padded_dense_to_jagged_forward", NPU_FN(at::native::_padded_dense_to_jagged_forward_cpu));
  m.impl("_nested_tensor_from_mask", NPU_FN(at::native::NestedTensor_nested_tensor_from_mask));
  m.impl("_nested_tensor_from_mask_left_aligned",
         NPU_FN(at::native::NestedTensor_nested_tensor_from_mask_left_aligned));
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  m.impl("native_layer_norm", NPU_FN(layer_norm));
  m.impl("native_layer_norm_backward", NPU_FN(layer_norm_backward));
  m.impl("sum.dim_IntList", TORCH_FN(sum));
  m.impl("_nested_sum_backward", NPU_FN(sum_backward));
  m.impl("_native_multi_head_attention", NPU_FN(multi_head_attention));
  m.impl("_transformer_encoder_layer_fwd", NPU_FN(at::native::transformer_encoder_layer_forward));
}

}  // namespace npu
