// Operators that write rows into caches and return the caches too, and those on lists of tensors: kernels of ops/npu.yaml.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include "csrc/core/device.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops::kernels {
namespace {

using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using Five = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

struct RopeResults {
  Result q, k, v;
};
RopeResults rope_results(const char* op, const at::Tensor& x, const at::Tensor& cos, at::IntArrayRef splits,
                         int64_t quant_mode, std::string_view layout, bool outputs, std::string_view cache_mode) {
  check_rope_cache(op, x, cos, splits, quant_mode, layout, cache_mode);
  const at::ScalarType type = cos.scalar_type();
  return {sized(rope_heads(x, cos, splits, 0), type),
          outputs ? sized(rope_heads(x, cos, splits, 1), type) : nothing(type),
          outputs ? sized(rope_heads(x, cos, splits, 2), type) : nothing(type)};
}

}  // namespace

Four kv_rmsnorm_rope_cache(const at::Tensor& kv, const at::Tensor& gamma, const at::Tensor& cos, const at::Tensor& sin,
                           const at::Tensor& index, const at::Tensor& k_cache, const at::Tensor& ckv_cache,
                           const OptionalTensor& k_rope_scale, const OptionalTensor& c_kv_scale,
                           const OptionalTensor& k_rope_offset, const OptionalTensor& c_kv_offset,
                           const OptionalTensor& v, double epsilon, std::string_view cache_mode, bool is_output_kv) {
  at::Tensor k = k_cache, ckv = ckv_cache;
  const auto [k_rope, c_kv] =
      npu_kv_rmsnorm_rope_cache_v2(kv, gamma, cos, sin, index, k, ckv, k_rope_scale, c_kv_scale, k_rope_offset,
                                   c_kv_offset, v, epsilon, cache_mode, is_output_kv, std::nullopt, std::nullopt);
  return {k, ckv, k_rope, c_kv};
}

Four kv_rmsnorm_rope_cache_meta(const at::Tensor& kv, const at::Tensor& gamma, const at::Tensor& cos, const at::Tensor&,
                                const at::Tensor&, const at::Tensor& k_cache, const at::Tensor& ckv_cache,
                                const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                                const OptionalTensor&, const OptionalTensor& v, double, std::string_view, bool) {
  return {on_meta(like(k_cache)), on_meta(like(ckv_cache)), on_meta(sized(normed_key(kv, cos, v), kv.scalar_type())),
          on_meta(sized(normed_value(kv, gamma, v), kv.scalar_type()))};
}

Five dequant_rope_quant_kvcache(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                                const at::Tensor& k_cache, const at::Tensor& v_cache, const at::Tensor& indices,
                                const at::Tensor& scale_k, const at::Tensor& scale_v, at::IntArrayRef size_splits,
                                const OptionalTensor& offset_k, const OptionalTensor& offset_v,
                                const OptionalTensor& weight_scale, const OptionalTensor& activation_scale,
                                const OptionalTensor& bias, int64_t quant_mode, std::string_view input_layout,
                                bool kv_output, std::string_view cache_mode) {
  const NPUGuard guard(first_device(x, cos, k_cache));
  const RopeResults made = rope_results("npu_dequant_rope_quant_kvcache", x, cos, size_splits, quant_mode, input_layout,
                                        kv_output, cache_mode);
  at::Tensor q = on_device(made.q), k = on_device(made.k), v = on_device(made.v);
  ACLNN(aclnnDequantRopeQuantKvcache)
  (x, cos, sin, k_cache, v_cache, indices, scale_k, scale_v, offset_k, offset_v, weight_scale, activation_scale, bias,
   size_splits, std::string_view("static"), input_layout, kv_output, cache_mode, q, k, v);
  return {q, k, v, k_cache, v_cache};
}

Five dequant_rope_quant_kvcache_meta(const at::Tensor& x, const at::Tensor& cos, const at::Tensor&,
                                     const at::Tensor& k_cache, const at::Tensor& v_cache, const at::Tensor&,
                                     const at::Tensor&, const at::Tensor&, at::IntArrayRef size_splits,
                                     const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                                     const OptionalTensor&, const OptionalTensor&, int64_t quant_mode,
                                     std::string_view input_layout, bool kv_output, std::string_view cache_mode) {
  const RopeResults made = rope_results("npu_dequant_rope_quant_kvcache", x, cos, size_splits, quant_mode, input_layout,
                                        kv_output, cache_mode);
  return {on_meta(made.q), on_meta(made.k), on_meta(made.v), on_meta(like(k_cache)), on_meta(like(v_cache))};
}

Five rope_quant_kvcache(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& k_cache,
                        const at::Tensor& v_cache, const at::Tensor& indices, const at::Tensor& scale_k,
                        const at::Tensor& scale_v, at::IntArrayRef size_splits, const OptionalTensor& offset_k,
                        const OptionalTensor& offset_v, int64_t quant_mode, std::string_view input_layout,
                        bool kv_output, std::string_view cache_mode) {
  return dequant_rope_quant_kvcache(x, cos, sin, k_cache, v_cache, indices, scale_k, scale_v, size_splits, offset_k,
                                    offset_v, {}, {}, {}, quant_mode, input_layout, kv_output, cache_mode);
}

Five rope_quant_kvcache_meta(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                             const at::Tensor& k_cache, const at::Tensor& v_cache, const at::Tensor& indices,
                             const at::Tensor& scale_k, const at::Tensor& scale_v, at::IntArrayRef size_splits,
                             const OptionalTensor& offset_k, const OptionalTensor& offset_v, int64_t quant_mode,
                             std::string_view input_layout, bool kv_output, std::string_view cache_mode) {
  return dequant_rope_quant_kvcache_meta(x, cos, sin, k_cache, v_cache, indices, scale_k, scale_v, size_splits,
                                         offset_k, offset_v, {}, {}, {}, quant_mode, input_layout, kv_output,
                                         cache_mode);
}

std::vector<at::Tensor> scatter_list(at::TensorList input, const at::Tensor& indices, const at::Tensor& updates,
                                     const OptionalTensor& mask, std::string_view reduce, int64_t axis) {
  const NPUGuard guard(first_device(input, indices));
  std::vector<at::Tensor> out;
  for (const at::Tensor& t : input) out.push_back(on_device(like(t)).copy_(t));
  npu_scatter_list_(out, indices, updates, mask, reduce, axis);
  return out;
}

std::vector<at::Tensor> scatter_list_meta(at::TensorList input, const at::Tensor&, const at::Tensor&,
                                          const OptionalTensor&, std::string_view, int64_t) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& t : input) out.push_back(on_meta(like(t)));
  return out;
}

}  // namespace npu::ops::kernels
