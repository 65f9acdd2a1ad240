// Parameters and checks of quantization, experts and cross entropy (params.h), and npu_quant_matmul.
#include <ATen/core/Tensor.h>

#include "csrc/core/device.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops {

void check_top_k(const char* name, const at::Tensor& x, int64_t k) {
  TORCH_CHECK(x.dim() > 0, name, ": the input has no dimensions");
  TORCH_CHECK_VALUE(k > 0, name, ": k is ", k);
  TORCH_SYM_CHECK(x.sym_size(-1).sym_ge(k), name, ": k is ", k, ", but there are ", x.sym_size(-1), " experts");
}

void check_not_padded(const char* name, bool padded_mode) {
  TORCH_CHECK_NOT_IMPLEMENTED(!padded_mode, name, ": padded_mode is not implemented");
}

c10::SymInt permuted_rows(const at::Tensor& indices, std::optional<int64_t> wanted) {
  const c10::SymInt all = indices.sym_numel();
  const int64_t count = wanted.value_or(0);
  if (count > 0) return all.min(count);
  return count == 0 ? all : (all + count).max(0);
}

c10::SymInt unpermuted_rows(const at::Tensor& places, const OptionalTensor& probs) {
  return given(probs) ? probs->sym_size(0) : places.sym_numel();
}

void check_dynamic_quant(const at::Tensor& input, std::optional<int64_t> dtype, std::string_view mode) {
  TORCH_CHECK(input.dim() > 0 && input.is_floating_point(), "dynamic quantization of ", input.scalar_type(), " with ",
              input.dim(), " dimensions: a floating-point tensor with rows is expected");
  TORCH_CHECK_NOT_IMPLEMENTED(!dtype || *dtype == static_cast<int64_t>(at::kChar),
                              "dynamic quantization to another type than int8 is not implemented: dst_type ", *dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(mode == "pertoken", "dynamic quantization: the quant_mode ", mode, " is not implemented");
}

int64_t acl_code(at::ScalarType type) { return static_cast<int64_t>(acl_dtype(type)); }

at::ScalarType quantized_type(int64_t dtype) {
  switch (static_cast<at::ScalarType>(dtype)) {
    case at::kChar:
    case at::kQInt8:
      return at::kChar;
    case at::kByte:
    case at::kQUInt8:
      return at::kByte;
    case at::kInt:
    case at::kQInt32:
      return at::kInt;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "npu_quantize: the dtype ", dtype, " is not one of int8, uint8 and int32");
  }
}

at::ScalarType half_type(std::optional<int64_t> dtype) {
  const auto type = static_cast<at::ScalarType>(dtype.value_or(static_cast<int64_t>(at::kHalf)));
  TORCH_CHECK_VALUE(type == at::kHalf || type == at::kBFloat16,
                    "npu_anti_quant: dst_dtype is float16 or bfloat16, not ", type);
  return type;
}

at::ScalarType quant_matmul_type(std::optional<int64_t> dtype) {
  const auto type = static_cast<at::ScalarType>(dtype.value_or(static_cast<int64_t>(at::kChar)));
  TORCH_CHECK_VALUE(
      type == at::kChar || type == at::kHalf || type == at::kBFloat16 || type == at::kInt || type == at::kFloat,
      "npu_quant_matmul: output_dtype is int8, float16, bfloat16, float32 or int32, not ", type);
  return type;
}

void check_round_mode(std::optional<int64_t> mode) {
  TORCH_CHECK_NOT_IMPLEMENTED(mode.value_or(0) == 0, "npu_trans_quant_param: round_mode ", *mode,
                              " is not implemented");
}

Sizes matmul_sizes(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, "a product of quantized operands takes matrices, not ", a.dim(), " and ",
              b.dim(), " dimensions");
  TORCH_SYM_CHECK(a.sym_size(-1).sym_eq(b.sym_size(-2)), "the operands' inner sizes are ", a.sym_size(-1), " and ",
                  b.sym_size(-2));
  const at::Tensor& longer = a.dim() >= b.dim() ? a : b;
  Sizes sizes = without_last(longer, 2);
  sizes.push_back(a.sym_size(-2));
  sizes.push_back(b.sym_size(-1));
  return sizes;
}

bool packs_columns(const at::Tensor& weight) {
  if (weight.scalar_type() != at::kInt) return false;
  return !(weight.sym_stride(0) == 1 && weight.sym_stride(1) != 1);
}

void quantize_into(const at::Tensor& input, const at::Tensor& scales, const OptionalTensor& zero_points, int64_t axis,
                   bool divide, const at::Tensor& out) {
  if (divide) {
    ACLNN(aclnnQuantize)(input, scales, zero_points, out.scalar_type(), static_cast<int32_t>(axis), out);
  } else {
    ACLNN(aclnnAscendQuantV3)
    (input, scales, zero_points, false, "round", static_cast<int32_t>(acl_dtype(out.scalar_type())),
     static_cast<int32_t>(axis), out);
  }
}

void check_cross_entropy(const at::Tensor& input, const at::Tensor& target, const OptionalTensor& weight,
                         std::string_view reduction, double zloss, bool return_zloss) {
  TORCH_CHECK(input.dim() == 2 && target.dim() == 1,
              "npu_cross_entropy_loss: the input is [N, C] and the target [N], not ", input.sym_sizes(), " and ",
              target.sym_sizes());
  TORCH_SYM_CHECK(input.sym_size(0).sym_eq(target.sym_size(0)), "npu_cross_entropy_loss: ", input.sym_size(0),
                  " rows and ", target.sym_size(0), " targets");
  TORCH_CHECK(!given(weight) || (weight->dim() == 1 && weight->sym_size(0) == input.sym_size(1)),
              "npu_cross_entropy_loss: weight has one element a class");
  TORCH_CHECK_VALUE(reduction == "mean" || reduction == "sum" || reduction == "none",
                    "npu_cross_entropy_loss: reduction is mean, sum or none, not ", reduction);
  TORCH_CHECK_NOT_IMPLEMENTED(zloss == 0 && !return_zloss, "npu_cross_entropy_loss: the z-loss is not implemented");
}

void check_no_zloss(double zloss, const OptionalTensor& gradient) {
  TORCH_CHECK_NOT_IMPLEMENTED(zloss == 0 && !given(gradient), "npu_cross_entropy_loss: the z-loss is not implemented");
}

namespace kernels {

at::Tensor quant_matmul(const at::Tensor& x1, const at::Tensor& x2, const at::Tensor& scale,
                        const OptionalTensor& offset, const OptionalTensor& pertoken_scale, const OptionalTensor& bias,
                        std::optional<int64_t> output_dtype, std::optional<int64_t>, std::optional<int64_t>,
                        std::optional<int64_t>, std::optional<int64_t>, at::OptionalIntArrayRef group_sizes,
                        const OptionalTensor& y_scale) {
  const NPUGuard guard(first_device(x1, x2, scale));
  TORCH_CHECK(x1.scalar_type() == at::kChar && x2.scalar_type() == at::kChar, "npu_quant_matmul: operands of ",
              x1.scalar_type(), " and ", x2.scalar_type(), ": int8 ones are implemented");
  TORCH_CHECK_NOT_IMPLEMENTED(!group_sizes && !given(y_scale),
                              "npu_quant_matmul: group_sizes and y_scale are not implemented");
  const at::Tensor none, out = on_device(sized(matmul_sizes(x1, x2), quant_matmul_type(output_dtype)));
  if (out.numel() == 0) return out;
  ACLNN(aclnnQuantMatmulV5)
  (x1, x2, pertoken_scale, scale, none, none, offset, none, bias, false, false, 0, out);
  return out;
}

}  // namespace kernels
}  // namespace npu::ops
