// Parameters and checks of quantization: see params.h.
#include <ATen/core/Tensor.h>

#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/structured.h"

namespace npu::ops {

void check_dynamic_quant(const at::Tensor& input, std::optional<int64_t> dtype, std::string_view mode, double largest) {
  TORCH_CHECK(input.dim() > 0 && input.is_floating_point(), "dynamic quantization of ", input.scalar_type(), " with ",
              input.dim(), " dimensions: a floating-point tensor with rows is expected");
  TORCH_SYM_CHECK(input.sym_size(-1).sym_gt(0), "dynamic quantization: input must have columns, got sizes ",
                  input.sym_sizes());
  TORCH_CHECK_NOT_IMPLEMENTED(!dtype || *dtype == static_cast<int64_t>(at::kChar), "dynamic quantization: dst_type ",
                              *dtype, " is not implemented; int8 is");
  TORCH_CHECK_NOT_IMPLEMENTED(mode == "pertoken", "dynamic quantization: the quant_mode ", mode, " is not implemented");
  TORCH_CHECK_NOT_IMPLEMENTED(largest == 0, "dynamic quantization: dst_type_max ", largest,
                              " is not implemented, int8 ends at 127; leave it out");
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

void check_quant_matmul(const at::Tensor& x1, const at::Tensor& x2, at::OptionalIntArrayRef group_sizes,
                        const OptionalTensor& y_scale) {
  const bool whole = x1.scalar_type() == at::kChar || x1.scalar_type() == at::kInt;
  TORCH_CHECK(whole && x1.scalar_type() == x2.scalar_type(), "npu_quant_matmul: operands of ", x1.scalar_type(),
              " and ", x2.scalar_type(), ": int8 ones are implemented, and int32 ones of eight 4-bit integers each");
  refuse_given("npu_quant_matmul", "group_sizes", group_sizes);
  refuse_given("npu_quant_matmul", "y_scale", y_scale);
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

}  // namespace npu::ops
