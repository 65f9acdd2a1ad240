// Products whose weight is quantized: types that go together, inner sizes, and the numbers of scales. See sizes.h.
#include "csrc/core/type_name.h"
#include "csrc/ops/npu/mx.h"
#include "csrc/ops/npu/numbered_type.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/type_rules.h"

namespace npu::ops {
namespace {

constexpr std::initializer_list<at::ScalarType> kFloating = {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble};
// Numbers, or the bits that npu_trans_quant_param makes of them.
constexpr std::initializer_list<at::ScalarType> kScales = {at::kFloat,  at::kHalf, at::kBFloat16,
                                                           at::kDouble, at::kLong, at::kUInt64};

// The inner sizes of a product, in elements.
void need_inner(const char* op, const char* a, const at::Tensor& x, const char* b, const at::Tensor& y) {
  const Sizes left = elements_of(x), right = elements_of(y);
  TORCH_SYM_CHECK(left.back().sym_eq(right[right.size() - 2]), op, ": ", a, " of ", x.sym_sizes(), " and ", b, " of ",
                  y.sym_sizes(), " have no product: the inner sizes are ", left.back(), " and ",
                  right[right.size() - 2]);
}

void need_columns(const char* op, const char* name, const at::Tensor& t, const c10::SymInt& columns) {
  const c10::SymInt has = elements_of(t).back();
  TORCH_SYM_CHECK(has.sym_eq(columns), op, ": ", name, " of ", t.sym_sizes(), " has ", has,
                  " columns, and its scale numbers for ", columns);
}

}  // namespace

void need_halves(const char* op, const at::Tensor& scale) {
  if (!scale.dim()) return;
  const c10::SymInt columns = scale.sym_size(-1);
  TORCH_SYM_CHECK((columns % 2).sym_eq(0), op, ": the weight has ", columns, " columns, which are no two halves");
}

void check_weight_quant(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale,
                        const OptionalTensor& offset, const OptionalTensor& quant_scale, int64_t group) {
  constexpr const char* kOp = "npu_weight_quant_batchmatmul";
  need_dims(kOp, "x", x, {2});
  need_dims(kOp, "weight", weight, {2});
  need_inner(kOp, "x", x, "weight", weight);
  const Sizes w = elements_of(weight);
  const c10::SymInt groups = group > 0 ? (w[0] + (group - 1)) / group : c10::SymInt(1);
  need_type(kOp, "antiquant_scale", scale, kScales);
  need_elements(kOp, "antiquant_scale", scale, {w[1] * groups, w[1], 1});
  need_elements(kOp, "antiquant_offset", offset, {scale.sym_numel()});
  const bool bits = scale.scalar_type() == at::kLong || scale.scalar_type() == at::kUInt64;
  TORCH_CHECK(
      !bits || (x.scalar_type() == at::kHalf && weight.scalar_type() == at::kChar && group == 0 && !given(quant_scale)),
      kOp, ": antiquant_scale of ", type_name(scale),
      " goes with x of float16, a weight of int8, no groups and no quant_scale; else give a floating one");
  TORCH_CHECK(!given(offset) || offset->scalar_type() != at::kInt || bits, kOp,
              ": antiquant_offset of int32 goes with antiquant_scale of int64 or uint64; give a floating one");
}

void check_quant_matmul_gelu(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& x1_scale,
                             const at::Tensor& x2_scale, const OptionalTensor& bias,
                             std::optional<std::string_view> approximate) {
  constexpr const char* kOp = "npu_quant_matmul_gelu";
  check_word(kOp, "approximate", approximate.value_or("gelu_erf"), {"gelu_erf", "gelu_tanh"});
  need_same_type(kOp, "x1", x1, "x2", x2);
  TORCH_CHECK(x1.dim() >= 2 && x2.dim() >= 2, kOp, ": x1 and x2 have ", x1.dim(), " and ", x2.dim(),
              " dimensions, two or more are expected");
  need_inner(kOp, "x1", x1, "x2", x2);
  need_elements(kOp, "x1_scale", x1_scale, {1, row_count(x1)});
  need_elements(kOp, "x2_scale", x2_scale, {1, x2.sym_size(-1)});
  need_elements(kOp, "bias", bias, {x2.sym_size(-1)});
}

void check_grouped_swiglu_quant(const at::Tensor& x, at::TensorList weight, at::TensorList weight_scale,
                                const at::Tensor& x_scale, const at::Tensor& group_list,
                                const OptionalTensor& smooth_scale, std::optional<at::TensorList> weight_assist_matrix,
                                const OptionalTensor& bias, std::optional<int64_t> dequant_mode,
                                std::optional<int64_t> dequant_dtype, std::optional<int64_t> quant_mode,
                                std::optional<int64_t> quant_dtype, std::optional<int64_t> list_type,
                                std::optional<int64_t> x_dtype, std::optional<int64_t> weight_dtype,
                                std::optional<int64_t> weight_scale_dtype, std::optional<int64_t> x_scale_dtype) {
  constexpr const char* kOp = "npu_grouped_matmul_swiglu_quant_v2";
  refuse_given(kOp, "bias", bias);
  check_number(kOp, "dequant_mode", dequant_mode.value_or(0), {0});
  check_number(kOp, "quant_mode", quant_mode.value_or(0), {0});
  check_int8(kOp, "quant_dtype", quant_dtype);
  check_number(kOp, "group_list_type", list_type.value_or(0), {0, 1});
  TORCH_CHECK(!weight.empty() && weight.size() == weight_scale.size(), kOp, ": ", weight.size(), " weights and ",
              weight_scale.size(), " scales");
  need_dims(kOp, "x", x, {2});
  need_type(kOp, "x", x, {at::kChar, at::kInt});
  need_type(kOp, "x_scale", x_scale, kFloating);
  need_elements(kOp, "x_scale", x_scale, {x.sym_size(0)});
  const bool stacked = weight.size() == 1 && weight[0].dim() == 3;
  const c10::SymInt groups = stacked ? weight[0].sym_size(0) : c10::SymInt(static_cast<int64_t>(weight.size()));
  need_elements(kOp, "group_list", group_list, {groups});
  const c10::SymInt columns = last_size(weight_scale);
  for (size_t i = 0; i < weight.size(); ++i) {
    need_same_type(kOp, "x", x, "weight", weight[i]);
    need_dims(kOp, "weight", weight[i], {stacked ? 3 : 2});
    need_inner(kOp, "x", x, "weight", weight[i]);
    need_type(kOp, "weight_scale", weight_scale[i], kScales);
    need_sizes(kOp, "weight_scale", weight_scale[i], stacked ? Sizes{groups, columns} : Sizes{columns});
    need_columns(kOp, "weight", weight[i], columns);
  }
  need_halves(kOp, weight_scale[0]);
  need_elements(kOp, "smooth_scale", smooth_scale, {groups, columns / 2, groups * (columns / 2)});
  refuse_given(kOp, "weight_assist_matrix", weight_assist_matrix);
  check_type(kOp, "dequant_dtype", dequant_dtype.value_or(static_cast<int64_t>(at::kFloat)), {at::kFloat});
  check_dtypes(kOp, {{"x_dtype", x_dtype, x},
                     {"weight_dtype", weight_dtype, weight},
                     {"weight_scale_dtype", weight_scale_dtype, weight_scale},
                     {"x_scale_dtype", x_scale_dtype, x_scale}});
}

void check_grouped_finalize(const at::Tensor& x, const at::Tensor& w, const OptionalTensor& scale,
                            const OptionalTensor& offset, const OptionalTensor& pertoken_scale,
                            const OptionalTensor& shared, const OptionalTensor& row_index, const RoutedRows& rows,
                            std::optional<at::ScalarType> dtype, std::optional<int64_t> x_dtype,
                            std::optional<int64_t> w_dtype, std::optional<int64_t> scale_dtype,
                            std::optional<int64_t> pertoken_scale_dtype) {
  constexpr const char* kOp = "npu_grouped_matmul_finalize_routing";
  refuse_given(kOp, "offset", offset);
  TORCH_CHECK_VALUE(given(scale), kOp, ": scale is needed, [groups, columns]");
  TORCH_CHECK(x.dim() == 2 && w.dim() == 3, kOp, ": x and w have two and three dimensions, not ", x.dim(), " and ",
              w.dim());
  check_number(kOp, "group_list_type", rows.list_type, {0, 1});
  if (x.scalar_type() == at::kChar) {
    need_type(kOp, "w", w, {at::kChar});
  } else {
    need_type(kOp, "w", w, {at::kFloat8_e5m2, at::kFloat8_e4m3fn});
  }
  need_type(kOp, "scale", scale, kScales);
  need_type(kOp, "pertoken_scale", pertoken_scale, kFloating);
  const c10::SymInt made = rows.made > 0 ? c10::SymInt(rows.made) : x.sym_size(0);
  if (!given(row_index)) {
    TORCH_SYM_CHECK(made.sym_eq(x.sym_size(0)), kOp, ": row_index is needed where output_bs, ", made,
                    ", is not the number of rows of x, ", x.sym_size(0));
  }
  if (given(shared) && holds_elements(*shared)) {
    need_sizes(kOp, "shared_input", shared, {-1, w.sym_size(2)});
    TORCH_SYM_CHECK(c10::SymBool(rows.shared_from >= 0).sym_and((shared->sym_size(0) + rows.shared_from).sym_le(made)),
                    kOp, ": shared_input has ", shared->sym_size(0), " rows, which do not fit from row ",
                    rows.shared_from, " (shared_input_offset) on into a result of ", made);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(!dtype || *dtype == at::kFloat, kOp, ": only float32 results are implemented");
  check_dtypes(kOp, {{"x_dtype", x_dtype, x},
                     {"w_dtype", w_dtype, w},
                     {"scale_dtype", scale_dtype, scale},
                     {"pertoken_scale_dtype", pertoken_scale_dtype, pertoken_scale}});
}

}  // namespace npu::ops
