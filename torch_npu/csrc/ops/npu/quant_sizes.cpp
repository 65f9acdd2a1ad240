// Quantization behind other arithmetic: sizes, see sizes.h.
#include <algorithm>

#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

constexpr int64_t kPlain[] = {0, 1, 2};

}  // namespace

Sizes permuted_product(const at::Tensor& a, const at::Tensor& b, at::OptionalIntArrayRef perm_a,
                       at::OptionalIntArrayRef perm_b, const OptionalTensor& scale, int64_t split) {
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3, "npu_transpose_batchmatmul: operands have three dimensions, not ", a.dim(),
              " and ", b.dim());
  const auto size = [](const at::Tensor& t, at::OptionalIntArrayRef perm, size_t d) {
    const bool none = !perm || perm->empty();
    TORCH_CHECK_VALUE(none || (perm->size() == 3 && std::is_permutation(perm->begin(), perm->end(), kPlain)),
                      "npu_transpose_batchmatmul: ", *perm, " is not a permutation of 0, 1 and 2");
    return t.sym_size(perm && !perm->empty() ? (*perm)[d] : static_cast<int64_t>(d));
  };
  const c10::SymInt batch = size(a, perm_a, 0), m = size(a, perm_a, 1), n = size(b, perm_b, 2);
  TORCH_SYM_CHECK(size(a, perm_a, 2).sym_eq(size(b, perm_b, 1)), "npu_transpose_batchmatmul: inner sizes ",
                  size(a, perm_a, 2), " and ", size(b, perm_b, 1));
  need_same_type("npu_transpose_batchmatmul", "input", a, "weight", b);
  TORCH_SYM_CHECK(size(b, perm_b, 0).sym_eq(batch), "npu_transpose_batchmatmul: batches of ", batch, " and ",
                  size(b, perm_b, 0));
  TORCH_CHECK_VALUE(split >= 1 && batch % split == 0, "npu_transpose_batchmatmul: batch_split_factor is ", split,
                    "; it divides the batch of ", batch);
  TORCH_CHECK(split == 1 || !given(scale),
              "npu_transpose_batchmatmul: batch_split_factor and scale exclude each other");
  need_sizes("npu_transpose_batchmatmul", "scale", scale, {batch * n});
  if (given(scale)) return {m, 1, batch * n};
  if (split > 1) return {split, m, batch * n / split};
  return {m, batch, n};
}

Sizes product_sizes(const char* op, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, op, ": operands have ", a.dim(), " and ", b.dim(), " dimensions");
  TORCH_SYM_CHECK(a.sym_size(-1).sym_eq(b.sym_size(-2)), op, ": inner sizes ", a.sym_size(-1), " and ", b.sym_size(-2));
  return with_size(a, -1, b.sym_size(-1));
}

void check_norm_quant(const char* op, const at::Tensor& x, const at::Tensor& gamma, const OptionalTensor& beta,
                      const OptionalTensor& scale, const OptionalTensor& offset) {
  TORCH_CHECK(x.dim() > 0, op, ": x has no dimensions");
  const bool row = gamma.dim() == 2 && gamma.sym_size(0) == 1 && gamma.sym_size(1) == x.sym_size(-1);
  if (!row) check_gamma(op, x, gamma);  // gamma may have a dimension of one before its columns
  const c10::SymInt columns = x.sym_size(-1), each = gamma.sym_numel();
  need_elements(op, "beta", beta, {each});
  for (const auto& [name, t] : {std::pair{"beta", &beta}, {"scale", &scale}, {"offset", &offset}}) {
    TORCH_CHECK(!given(*t) || (*t)->sym_numel() == 1 || (*t)->dim() <= gamma.dim(), op, ": ", name,
                " must have the sizes of gamma, ", gamma.sym_sizes(), ", or one number; it has more dimensions");
  }
  need_elements(op, "scale", scale, {1, columns, each});
  need_elements(op, "offset", offset, {1, columns, each});
}

void check_anti_quant(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& offset) {
  constexpr const char* kOp = "npu_anti_quant";
  need_type(kOp, "x", x, {at::kChar, at::kInt});
  const Sizes out = x.scalar_type() == at::kInt ? with_size(x, -1, x.sym_size(-1) * 8) : sizes_of(x);
  need_broadcast(kOp, "scale", scale, out);
  need_broadcast(kOp, "offset", offset, out);
}

void check_group_quant(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& groups,
                       const OptionalTensor& offset) {
  constexpr const char* kOp = "npu_group_quant";
  need_dims(kOp, "x", x, {2});
  need_dims(kOp, "group_index", groups, {1});
  need_integers(kOp, "group_index", groups);
  need_sizes(kOp, "scale", scale, {groups.sym_size(0), x.sym_size(1)});
  need_elements(kOp, "offset", offset, {1});
}

void check_gated_rows(const char* op, const at::Tensor& x, const OptionalTensor& groups, const OptionalTensor& scale,
                      const OptionalTensor& offset) {
  TORCH_CHECK(x.dim() >= 2, op, ": x has ", x.dim(), " dimensions, at least two are expected");
  need_integers(op, "group_index", groups);
  const c10::SymInt columns = halved(x, -1).back(), count = given(groups) ? groups->sym_numel() : c10::SymInt(1);
  const Sizes counts = given(groups) ? Sizes{1, count, count * columns} : Sizes{1, columns};
  need_elements(op, "the scale", scale, counts);
  need_elements(op, "the offset", offset, counts);
}

void check_quant_max(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& groups) {
  constexpr const char* kOp = "npu_quant_max";
  TORCH_SYM_CHECK(x.sym_numel().sym_gt(0), kOp, ": x has no elements, so no maximum");
  need_integers(kOp, "group_list", groups);
  if (given(groups)) need_dims(kOp, "group_list", *groups, {1});
  need_elements(kOp, "scale", scale, {given(groups) ? groups->sym_numel() : c10::SymInt(1)});
}

void check_grouped_add(const char* op, const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& groups) {
  need_dims(op, "x", x, {2});
  need_sizes(op, "weight", weight, {x.sym_size(0), -1});
  need_dims(op, "group_list", groups, {1});
  need_integers(op, "group_list", groups);
  need_elements(op, "input", y, {groups.sym_size(0) * x.sym_size(1) * weight.sym_size(1)});
}

void check_lora(const char* op, const at::Tensor& y, const at::Tensor& x, const at::Tensor& b,
                const at::Tensor& indices, const OptionalTensor& a, int64_t layer, int64_t from, int64_t count) {
  need_dims(op, "input", y, {2});
  need_sizes(op, "x", x, {y.sym_size(0), -1});
  need_dims(op, "weight_b", b, {4});
  need_integers(op, "indices", indices);
  need_sizes(op, "indices", indices, {x.sym_size(0)});
  need_sizes(op, "weight_a", a, {b.sym_size(0), b.sym_size(1), b.sym_size(3), x.sym_size(1)});
  if (!given(a)) need_sizes(op, "weight_b", b, {-1, -1, -1, x.sym_size(1)});
  TORCH_SYM_CHECK(b.sym_size(1).sym_gt(layer), op, ": layer_idx is ", layer, " of ", b.sym_size(1), " layers");
  TORCH_CHECK_VALUE(layer >= 0 && from >= 0, op, ": layer_idx is ", layer, ", y_offset ", from);
  const c10::SymInt columns = count < 0 ? b.sym_size(2) : c10::SymInt(count);
  TORCH_SYM_CHECK(columns.sym_eq(b.sym_size(2)), op, ": y_slice_size is ", columns, ", weight_b has ", b.sym_size(2),
                  " rows");
  TORCH_SYM_CHECK((columns + from).sym_le(y.sym_size(1)), op, ": columns ", from, " to ", columns + from, " of ",
                  y.sym_size(1));
}

bool wants(const std::optional<std::array<bool, 2>>& mask, size_t i, bool otherwise) {
  return mask ? (*mask)[i] : otherwise;
}

c10::SymInt row_count(const at::Tensor& tensor) {
  return tensor.sym_size(-1) == 0 ? c10::SymInt(0) : tensor.sym_numel() / tensor.sym_size(-1);
}

c10::SymInt last_size(at::TensorList list) {
  TORCH_CHECK(!list.empty(), "an empty list of tensors");
  return list[0].sym_size(-1);
}

void check_norm_gradient_quant(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                               const at::Tensor& gamma, const at::Tensor& scale_x, const OptionalTensor& offset_x,
                               std::string_view quant_mode, std::optional<int64_t> dst_type) {
  constexpr const char* kOp = "_npu_rms_norm_backward_quant";
  check_same_sizes(kOp, "dy", dy, "x", x);
  check_gamma(kOp, x, gamma);
  check_word(kOp, "quant_mode", quant_mode, {"static"});
  check_int8(kOp, "dst_type", dst_type);
  need_elements(kOp, "rstd", rstd, {c10::multiply_integers(without_last(x, gamma.dim()))});
  need_elements(kOp, "scale_x", scale_x, {1, x.sym_size(-1)});
  need_elements(kOp, "offset_x", offset_x, {1, x.sym_size(-1)});
}

void check_dequant_swiglu(const at::Tensor& x, const OptionalTensor& quant_scale, const OptionalTensor& quant_offset,
                          const OptionalTensor& group_index, int64_t quant_mode, std::optional<int64_t> dst_type,
                          std::optional<int64_t> round_mode, std::optional<int64_t> activate_dim, int64_t swiglu_mode) {
  constexpr const char* kOp = "npu_dequant_swiglu_quant";
  check_number(kOp, "quant_mode", quant_mode, {0, 1});
  check_number(kOp, "swiglu_mode", swiglu_mode, {0, 1});
  check_number(kOp, "round_mode", round_mode.value_or(0), {0});
  check_number(kOp, "activate_dim", activate_dim.value_or(-1) == x.dim() - 1 ? -1 : activate_dim.value_or(-1), {-1});
  check_int8(kOp, "dst_type", dst_type);
  check_gated_rows(kOp, x, group_index, quant_scale, quant_offset);
}

void check_swiglu_quant(const at::Tensor& x, const OptionalTensor& smooth_scales, const OptionalTensor& offsets,
                        const OptionalTensor& group_index, int64_t quant_mode, int64_t group_list_type,
                        std::optional<at::ScalarType> dst_type) {
  constexpr const char* kOp = "npu_swiglu_quant";
  check_number(kOp, "quant_mode", quant_mode, {0, 1});
  check_number(kOp, "group_list_type", group_list_type, {0, 1});
  check_int8(kOp, "dst_type", dst_type ? std::optional<int64_t>(static_cast<int64_t>(*dst_type)) : std::nullopt);
  check_gated_rows(kOp, x, group_index, smooth_scales, offsets);
}

void check_add_norm_quant(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& gamma,
                          const at::Tensor& scales1, const OptionalTensor& zero_points1, const OptionalTensor& beta,
                          const OptionalTensor& scales2, const OptionalTensor& zero_points2, int64_t axis,
                          std::optional<int64_t> dst_type) {
  constexpr const char* kOp = "npu_add_rms_norm_quant";
  check_same_sizes(kOp, "x1", x1, "x2", x2);
  check_gamma(kOp, x1, gamma);
  check_number(kOp, "axis", axis, {-1});
  check_int8(kOp, "dst_type", dst_type);
  check_norm_quant(kOp, x1, gamma, beta, scales1, zero_points1);
  check_norm_quant(kOp, x1, gamma, beta, scales2, zero_points2);
}

void check_add_norm_dynamic_quant(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& gamma,
                                  const OptionalTensor& smooth_scale1, const OptionalTensor& smooth_scale2,
                                  const OptionalTensor& beta, std::optional<int64_t> y_dtype) {
  constexpr const char* kOp = "npu_add_rms_norm_dynamic_quant";
  check_same_sizes(kOp, "x1", x1, "x2", x2);
  check_gamma(kOp, x1, gamma);
  check_int8(kOp, "y_dtype", y_dtype);
  check_norm_quant(kOp, x1, gamma, beta, smooth_scale1, smooth_scale2);
  TORCH_SYM_CHECK(x1.sym_size(-1).sym_gt(0), kOp, ": x1 must have columns, got sizes ", x1.sym_sizes());
}

void check_grouped_block_quant(std::string_view round_mode, int64_t group_list_type, double dst_type_max) {
  constexpr const char* kOp = "npu_grouped_dynamic_block_quant";
  check_word(kOp, "round_mode", round_mode, {"rint"});
  check_number(kOp, "group_list_type", group_list_type, {0});
  TORCH_CHECK_NOT_IMPLEMENTED(dst_type_max == 0, kOp, ": dst_type_max goes with hifloat8, which is not implemented");
}

void check_rounded_quant_max(const at::Tensor& x, const at::Tensor& scale, std::string_view round_mode,
                             int64_t dst_dtype, const OptionalTensor& group_list) {
  constexpr const char* kOp = "npu_quant_max";
  check_word(kOp, "round_mode", round_mode, {"rint"});
  TORCH_CHECK_NOT_IMPLEMENTED(eight_bits(kOp, dst_dtype) != at::kChar, kOp,
                              ": int8 is not implemented; float8_e5m2 and float8_e4m3fn are");
  check_quant_max(x, scale, group_list);
}

void quant_max_into(const at::Tensor& x, const at::Tensor& scale, std::string_view round_mode,
                    const OptionalTensor& group_list, at::Tensor& y, at::Tensor& largest) {
  if (given(group_list)) {
    ACLNN(aclnnGroupedQuantMax)(x, scale, *group_list, round_mode, acl_code(y.scalar_type()), y, largest);
  } else {
    ACLNN(aclnnQuantMax)(x, scale, round_mode, acl_code(y.scalar_type()), y, largest);
  }
}

void check_fused_matmul(const OptionalTensor& x3, std::string_view fused_op_type) {
  check_word("npu_fused_matmul", "fused_op_type", fused_op_type,
             {"", "16cast32", "add", "mul", "gelu_erf", "gelu_tanh", "relu"});
  TORCH_CHECK(given(x3) == (fused_op_type == "add" || fused_op_type == "mul"),
              "npu_fused_matmul: x3 goes with add and mul alone");
}

void check_tuning(const char* op, at::OptionalIntArrayRef config) {
  if (!config) return;
  for (const int64_t rows : *config) {
    TORCH_CHECK_VALUE(rows >= 0, op, ": tuning_config must have numbers of rows, 0 or more, it is ", *config);
  }
}

void check_matmul_reduce_sum(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& x1_scale,
                             const OptionalTensor& x2_scale) {
  TORCH_CHECK(given(x1_scale) && given(x2_scale), "npu_quant_matmul_reduce_sum: x1_scale and x2_scale are needed");
  TORCH_CHECK(x1.dim() == 3 && x2.dim() == 3, "npu_quant_matmul_reduce_sum: operands have three dimensions, not ",
              x1.dim(), " and ", x2.dim());
}

void check_grouped_matmul_add(const char* op, const at::Tensor& input, const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& group_list, bool transpose_x, bool transpose_weight, int64_t group_type,
                              std::optional<int64_t> list_type) {
  check_number(op, "group_type", group_type, {2});
  check_number(op, "group_list_type", list_type.value_or(0), {0, 1});
  TORCH_CHECK_NOT_IMPLEMENTED(transpose_x && !transpose_weight, op,
                              ": only transpose_x without transpose_weight is implemented");
  check_grouped_add(op, input, x, weight, group_list);
}

void check_transposed_quant_product(const at::Tensor& x1, const at::Tensor& x2, const OptionalTensor& bias,
                                    std::optional<int64_t> batch_split_factor, std::optional<int64_t> x1_dtype,
                                    std::optional<int64_t> x2_dtype) {
  constexpr const char* kOp = "npu_transpose_quant_batchmatmul";
  refuse_given(kOp, "bias", bias);
  check_number(kOp, "batch_split_factor", batch_split_factor.value_or(1), {1});
  check_dtypes(kOp, {{"x1_dtype", x1_dtype, x1}, {"x2_dtype", x2_dtype, x2}});
}

void check_dequant_product(const char* op, const at::Tensor& weight, int64_t dims, const OptionalTensor& bias,
                           const OptionalTensor& x_offset, const std::optional<std::string_view>& mode) {
  refuse_given(op, "bias", bias);
  refuse_given(op, "x_offset", x_offset);
  check_word(op, "quant_mode", mode.value_or("pertoken"), {"pertoken", "pertensor"});
  TORCH_CHECK(weight.dim() == dims, op, ": quantized_weight has ", dims == 3 ? "three" : "two", " dimensions, not ",
              weight.dim());
}

}  // namespace npu::ops
