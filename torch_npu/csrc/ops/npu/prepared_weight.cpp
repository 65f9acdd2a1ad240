// A weight as products of 8-bit by 4-bit floats like it best: see npu_weight_quant_preprocess in ops/npu.yaml. Memory stays ND, and the format is
// a mark (format.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "csrc/core/device.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/mx.h"
#include "csrc/ops/npu/sizes.h"
#include "npu_ops.h"

namespace npu::ops {
namespace {

constexpr const char* kOp = "npu_weight_quant_preprocess";
constexpr int64_t kGroup = 32;  // inner numbers of a scale
constexpr int64_t kFloat4 = 296, kPowers = 293;

bool names(int64_t number, at::ScalarType type, int64_t vendor) {
  return number == static_cast<int64_t>(type) || number == vendor;
}

// The dimensions `dim` and the next lie in memory the other way round; the vendor's plugin asks the same.
void need_turned(const char* name, const at::Tensor& t, int64_t dim) {
  TORCH_SYM_CHECK(t.sym_stride(dim + 1).sym_eq(t.sym_stride(dim) * t.sym_size(dim)), kOp, ": ", name, " of strides ",
                  t.sym_strides(), " must be transposed in memory; make it so, and give its transposed view");
}

// As many numbers, of which the dimensions `dim` and the next are turned in memory.
at::Tensor empty_turned(const at::Tensor& like, int64_t dim) {
  const auto sizes = like.transpose(dim, dim + 1).sym_sizes().vec();
  return at::empty_symint(sizes, like.options()).transpose(dim, dim + 1);
}

}  // namespace

void check_weight_preprocess(const at::Tensor& weight, const at::Tensor& scale, const OptionalTensor& offset,
                             const OptionalTensor& bias, const PreparedTypes& types) {
  constexpr auto kElements = at::ScalarType::Float4_e2m1fn_x2;
  const bool known = names(types.x, at::kFloat8_e4m3fn, 292) && names(types.weight, kElements, kFloat4) &&
                     names(types.scale, at::kFloat8_e8m0fnu, kPowers) && types.x_scale &&
                     names(*types.x_scale, at::kFloat8_e8m0fnu, kPowers);
  TORCH_CHECK_NOT_IMPLEMENTED(known, kOp,
                              ": x_dtype, weight_dtype, weight_scale_dtype and x_scale_dtype are 292, 296, ",
                              "293 and 293, a product of float8_e4m3fn by float4_e2m1 with scales of float8_e8m0fnu; ",
                              "nothing else is implemented");
  TORCH_CHECK_VALUE(types.group == kGroup, kOp, ": k_group_size is ", types.group.value_or(0), ", 32 is expected");
  refuse_given(kOp, "weight_offset", offset);
  need_type(kOp, "weight", weight, {at::kByte, at::kChar, kElements});
  need_type(kOp, "weight_scale", scale, {at::kByte, at::kChar, at::kFloat8_e8m0fnu});
  need_type(kOp, "bias", bias, {at::kHalf, at::kBFloat16});
  need_dims(kOp, "weight", weight, {2, 3});
  const int64_t inner = weight.dim() - 2;
  TORCH_SYM_CHECK((weight.sym_size(inner) % (kGroup / 2)).sym_eq(0), kOp, ": weight has ", weight.sym_size(inner) * 2,
                  " inner numbers, two in a byte; a multiple of 32 is expected");
  Sizes sizes = sizes_of(weight);
  sizes[static_cast<size_t>(inner)] = (sizes[static_cast<size_t>(inner)] + kGroup - 1) / kGroup;
  sizes.push_back(2);
  need_sizes(kOp, "weight_scale", scale, sizes);
  need_turned("weight", weight, inner);
  need_turned("weight_scale", scale, inner);
  if (!given(bias)) return;
  need_dims(kOp, "bias", *bias, {1, 2});
  TORCH_SYM_CHECK(bias->sym_size(-1).sym_eq(weight.sym_size(-1)), kOp, ": bias of ", bias->sym_sizes(), " must have ",
                  weight.sym_size(-1), " columns, as weight");
  TORCH_CHECK(bias->is_contiguous(), kOp, ": bias must be contiguous");
}

namespace kernels {

using Prepared = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Prepared weight_quant_preprocess_meta(const at::Tensor& weight, const at::Tensor& weight_scale, int64_t x_dtype,
                                      int64_t weight_dtype, int64_t weight_scale_dtype,
                                      const OptionalTensor& weight_offset, const OptionalTensor& bias,
                                      std::optional<int64_t> x_scale_dtype, std::optional<int64_t> k_group_size) {
  const int64_t inner = weight.dim() - 2;
  return {empty_turned(weight, inner), empty_turned(weight_scale, inner), at::Tensor(),
          given(bias) ? at::empty_like(*bias) : at::Tensor()};
}

Prepared weight_quant_preprocess(const at::Tensor& weight, const at::Tensor& weight_scale, int64_t x_dtype,
                                 int64_t weight_dtype, int64_t weight_scale_dtype, const OptionalTensor& weight_offset,
                                 const OptionalTensor& bias, std::optional<int64_t> x_scale_dtype,
                                 std::optional<int64_t> k_group_size) {
  const Prepared made = weight_quant_preprocess_meta(weight, weight_scale, x_dtype, weight_dtype, weight_scale_dtype,
                                                     weight_offset, bias, x_scale_dtype, k_group_size);
  at::Tensor out = std::get<0>(made);
  const NPUGuard guard(weight.device().index());
  if (out.numel() > 0) {
    ACLNN(aclnnWeightQuantPreprocess)
    (as_elements(weight, kFloat4), as_scales(weight_scale), OptionalTensor(), bias, at::kFloat8_e4m3fn,
     at::kFloat8_e8m0fnu, kGroup, as_elements(out, kFloat4), as_scales(std::get<1>(made)), at::Tensor(),
     std::get<3>(made));
  } else if (given(bias)) {
    std::get<3>(made).copy_(*bias);
  }
  npu_format_cast__acl_format(out, ACL_FORMAT_FRACTAL_NZ_C0_16, std::nullopt, std::nullopt);
  return made;
}

}  // namespace kernels
}  // namespace npu::ops
