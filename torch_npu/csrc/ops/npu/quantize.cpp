// Parameters and checks of quantization: see quant.h and params.h.
#include "csrc/core/type_name.h"
#include "csrc/ops/npu/numbered_type.h"
#include "csrc/ops/npu/quant.h"

#include <ATen/WrapDimUtils.h>

#include <limits>

#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/structured.h"

namespace npu::ops {

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
      TORCH_CHECK_NOT_IMPLEMENTED(false, "npu_quantize: the dtype ", numbered_type(dtype),
                                  " is not one of int8, uint8 and int32");
  }
}

namespace {

// The type of that number, PyTorch's or the vendor's, among several; the first where there is none.
std::optional<at::ScalarType> chosen(std::optional<int64_t> number, std::initializer_list<at::ScalarType> types) {
  if (!number) return *types.begin();
  for (at::ScalarType type : types) {
    if (*number == static_cast<int64_t>(type) || *number == 256 + acl_code(type)) return type;
  }
  return std::nullopt;
}

}  // namespace

at::ScalarType half_type(std::optional<int64_t> dtype) {
  const auto type = chosen(dtype, {at::kHalf, at::kBFloat16});
  TORCH_CHECK_VALUE(type, "npu_anti_quant: dst_dtype is float16 or bfloat16, not ", numbered_type(*dtype));
  return *type;
}

at::ScalarType quant_matmul_type(std::optional<int64_t> dtype) {
  const auto type = chosen(dtype, {at::kChar, at::kHalf, at::kBFloat16, at::kInt, at::kFloat});
  TORCH_CHECK_VALUE(type, "npu_quant_matmul: output_dtype is int8, float16, bfloat16, float32 or int32, not ",
                    numbered_type(*dtype));
  return *type;
}

void check_round_mode(std::optional<int64_t> mode) {
  TORCH_CHECK_NOT_IMPLEMENTED(mode.value_or(0) == 0, "npu_trans_quant_param: round_mode ", *mode,
                              " is not implemented");
}

bool packs_columns(const at::Tensor& weight) {
  if (weight.scalar_type() != at::kInt) return false;
  return !(weight.sym_stride(0) == 1 && weight.sym_stride(1) != 1);
}

// -- npu_quantize

namespace {

// The dimension that scales lie along.
int64_t scaled_dim(const at::Tensor& input, const Quantizing& form) {
  if (form.divide) return at::maybe_wrap_dim(form.axis, input.dim());
  TORCH_CHECK_VALUE(form.axis >= -2, "npu_quantize: axis is ", form.axis,
                    "; with div_mode=False it is -2 for the last ", "dimension but one, and above for the last");
  at::maybe_wrap_dim(form.axis, input.dim());
  return form.axis == -2 ? input.dim() - 2 : input.dim() - 1;
}

// One number, one a place of the dimension, or in as many dimensions as the input has.
void need_along(const char* name, const at::Tensor& input, const OptionalTensor& t, int64_t dim, bool divide) {
  constexpr const char* kOp = "npu_quantize";
  if (!given(t)) return;
  Sizes counts{1};
  if (input.dim()) counts.push_back(input.sym_size(dim));
  if (divide) {
    need_dims(kOp, name, *t, {0, 1});
  } else {
    need_dims(kOp, name, *t, {0, 1, input.dim()});
  }
  if (t->dim() > 1) {
    for (int64_t d = 0; d < t->dim(); ++d) {
      TORCH_SYM_CHECK(t->sym_size(d).sym_eq(1).sym_or(c10::SymBool(d == dim)), kOp, ": ", name, " of ", t->sym_sizes(),
                      " must have one number in every dimension but ", dim, ", along which it lies");
    }
  }
  need_elements(kOp, name, t, counts);
}

}  // namespace

void check_quantize(const at::Tensor& input, const at::Tensor& scales, const OptionalTensor& zero_points,
                    const Quantizing& form) {
  constexpr const char* kOp = "npu_quantize";
  if (!form.divide) {
    need_type(kOp, "zero_points", zero_points, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
  }
  const int64_t dim = scaled_dim(input, form);
  need_along("scales", input, scales, dim, form.divide);
  need_along("zero_points", input, zero_points, dim, form.divide);
  if (given(zero_points) && zero_points->dim() && scales.dim()) {
    need_elements(kOp, "zero_points", zero_points, {scales.sym_numel()});
  }
  if (!names_nibbles(form.dtype)) return;
  TORCH_CHECK_VALUE(!form.divide, kOp, ": 4-bit integers are made with div_mode=False, where scales multiply");
  TORCH_CHECK(input.dim() > 0, kOp, ": 4-bit integers are packed along the last dimension, and input has none");
  TORCH_SYM_CHECK((input.sym_size(-1) % 8).sym_eq(0), kOp, ": 4-bit integers are packed in eights, and the last ",
                  "dimension of input has ", input.sym_size(-1), "; pad it to a multiple of 8");
}

Result quantized(const at::Tensor& input, const Quantizing& form) {
  if (names_nibbles(form.dtype)) return sized(with_size(input, -1, input.sym_size(-1) / 8), at::kInt);
  switch (form.dtype) {
    case kHifloat8:
      return like(input, at::kByte);
    case static_cast<int64_t>(at::kFloat8_e5m2):
    case 256 + ACL_FLOAT8_E5M2:
      return like(input, at::kFloat8_e5m2);
    case static_cast<int64_t>(at::kFloat8_e4m3fn):
    case 256 + ACL_FLOAT8_E4M3FN:
      return like(input, at::kFloat8_e4m3fn);
    default:
      return like(input, quantized_type(form.dtype));
  }
}

void quantize_into(const at::Tensor& input, const at::Tensor& scales, const OptionalTensor& zero_points,
                   const Quantizing& form, const at::Tensor& made) {
  const int64_t dim = scaled_dim(input, form);
  const at::Tensor out = read_as(made, form.dtype);
  if (form.divide) {
    ACLNN(aclnnQuantize)(input, scales, zero_points, out.scalar_type(), static_cast<int32_t>(dim), out);
  } else {
    ACLNN(aclnnAscendQuantV3)
    (input, scales, zero_points, false, "round", static_cast<int32_t>(acl_dtype(out.scalar_type())),
     static_cast<int32_t>(dim - input.dim()), out);
  }
}

// -- npu_dynamic_quant and npu_dynamic_quant_asymmetric

namespace {

at::ScalarType dynamic_type(const DynamicQuantizing& form) {
  const int64_t type = form.dtype.value_or(static_cast<int64_t>(at::kChar));
  if (names_nibbles(type)) return at::kInt;
  const auto is = [&](at::ScalarType one, int64_t vendor) {
    return type == static_cast<int64_t>(one) || type == 256 + vendor;
  };
  if (is(at::kFloat8_e5m2, ACL_FLOAT8_E5M2)) return at::kFloat8_e5m2;
  if (is(at::kFloat8_e4m3fn, ACL_FLOAT8_E4M3FN)) return at::kFloat8_e4m3fn;
  if (names_hifloat8(type)) return kHifloat8Codes;
  TORCH_CHECK_NOT_IMPLEMENTED(is(at::kChar, ACL_INT8) || is(at::kQInt8, ACL_INT8), form.op, ": dst_type ",
                              numbered_type(type),
                              " is not implemented; int8, quint4x2, float8_e5m2, float8_e4m3fn and hifloat8 are");
  return at::kChar;
}

bool of_rows(const DynamicQuantizing& form) { return form.mode == "pertoken"; }

// Whether the older function computes it, which all chips have.
bool plain(const DynamicQuantizing& form) {
  const at::ScalarType type = dynamic_type(form);
  return of_rows(form) && (type == at::kChar || type == at::kInt);
}

}  // namespace

void check_dynamic_quant(const at::Tensor& input, const OptionalTensor& smooth, const OptionalTensor& groups,
                         const DynamicQuantizing& form) {
  const char* const op = form.op;
  const at::ScalarType type = dynamic_type(form);
  check_word(op, "quant_mode", form.mode, {"pertoken", "pertensor", "perchannel"});
  TORCH_CHECK_NOT_IMPLEMENTED(form.largest == 0 || type == kHifloat8Codes, op, ": dst_type_max ", form.largest,
                              " is not implemented for results of ", type_name(type),
                              ", it is of hifloat8; leave it out");
  TORCH_CHECK_VALUE(form.largest >= 0 && form.largest <= 32768, op, ": dst_type_max is 0 to 32768, not ", form.largest);
  TORCH_CHECK_VALUE(form.largest == 0 || form.largest >= std::numeric_limits<float>::min(), op, ": dst_type_max ",
                    form.largest, " is 0 in float32 or nearly so; leave it out for 32768, or give 1.2e-38 to 32768");
  TORCH_CHECK(input.dim() > 0, op, ": input has no dimensions, so no rows");
  TORCH_CHECK(plain(form) || input.dim() > 1, op, ": input has 1 dimension; two or more are expected with quant_mode ",
              form.mode, " and results of ", type_name(type));
  const c10::SymInt columns = input.sym_size(-1);
  TORCH_SYM_CHECK(columns.sym_gt(0), op, ": input must have columns, got sizes ", input.sym_sizes());
  if (!of_rows(form)) {
    TORCH_SYM_CHECK(input.sym_numel().sym_gt(0), op, ": input of ", input.sym_sizes(), " has no largest number");
  }
  if (type == at::kInt) {
    TORCH_SYM_CHECK((columns % 8).sym_eq(0), op, ": 4-bit integers are packed in eights, and input has ", columns,
                    " columns; pad them to a multiple of 8");
  }
  if (!given(groups)) {
    return need_sizes(op, "smooth_scales", smooth,
                      {form.mode == "perchannel" ? input.sym_size(input.dim() - 2) : columns});
  }
  TORCH_CHECK_VALUE(of_rows(form), op, ": group_index goes with quant_mode pertoken, not ", form.mode);
  TORCH_CHECK_VALUE(given(smooth), op, ": group_index says to which rows smooth_scales belong, which are not given");
  need_dims(op, "group_index", *groups, {1});
  need_sizes(op, "smooth_scales", smooth, {groups->sym_size(0), columns});
}

Result dynamic_values(const at::Tensor& input, const DynamicQuantizing& form) {
  const at::ScalarType type = dynamic_type(form);
  return type == at::kInt ? sized(with_size(input, -1, input.sym_size(-1) / 8), type) : like(input, stored(type));
}

Result dynamic_scales(const at::Tensor& input, const DynamicQuantizing& form) {
  if (form.mode == "pertensor") return sized({1}, at::kFloat);
  Sizes sizes = sizes_of(input);
  sizes.erase(sizes.end() - (form.mode == "perchannel" ? 2 : 1));
  return sized(sizes, at::kFloat);
}

void dynamic_quant_into(const at::Tensor& input, const OptionalTensor& smooth, const OptionalTensor& groups,
                        const DynamicQuantizing& form, const at::Tensor& made, const at::Tensor& scale,
                        const at::Tensor& offset) {
  const at::Tensor y = written_as(made, dynamic_type(form));
  const int64_t type = acl_code(y.scalar_type());
  if (plain(form)) {
    ACLNN(aclnnDynamicQuantV2)(input, smooth, groups, type, y, scale, offset);
  } else {
    ACLNN(aclnnDynamicQuantV4)(input, smooth, groups, type, !offset.defined(), form.mode,
                               static_cast<float>(form.largest), y, scale, offset);
  }
}

}  // namespace npu::ops
