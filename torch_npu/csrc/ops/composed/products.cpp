// Products of matrices of 8 bits: whole numbers, whole-number weights, and 8-bit floats with scales. aclnnWeightQuantBatchMatmulV2 where
// CANN takes the types; else the product of the widened matrices. Who calls it: PyTorch's dispatcher.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

void check_whole(const at::Tensor& self, const at::Tensor& mat2) {
  constexpr const char* kName = "int_mm_out_cpu";
  TORCH_CHECK(self.dim() == 2, kName, ": Expected self to be of dimension 2 but got ", self.dim());
  TORCH_CHECK(mat2.dim() == 2, kName, ": Expected mat2 to be of dimension 2 but got ", mat2.dim());
  TORCH_CHECK(self.size(1) == mat2.size(0), kName, ": self.size(1) needs to match mat2.size(0) but got ", self.size(1),
              " and ", mat2.size(0));
  TORCH_CHECK(self.scalar_type() == at::kChar || self.scalar_type() == at::kByte, kName,
              ": Expected self dtype to be int8 or uint8 but got ", self.dtype());
  TORCH_CHECK(mat2.scalar_type() == at::kChar, kName, ": Expected mat2 dtype to be int8 but got ", mat2.dtype());
}

// Exact: a thousand products of 8 bits do not leave the whole numbers of float32, which are 2^24, and are added as the CPU's 32 bits, which wrap.
constexpr int64_t kExact = 512;  // also where one factor is not signed

at::Tensor int_mm(const at::Tensor& self, const at::Tensor& mat2) {
  check_whole(self, mat2);
  const NPUGuard guard(self.device().index());
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);  // it would multiply in 16 bits
  const at::Tensor a = self.to(at::kFloat), b = mat2.to(at::kFloat);
  at::Tensor sum = a.slice(1, 0, kExact).mm(b.slice(0, 0, kExact)).to(at::kInt);
  for (int64_t from = kExact; from < a.size(1); from += kExact) {
    sum.add_(a.slice(1, from, from + kExact).mm(b.slice(0, from, from + kExact)).to(at::kInt));
  }
  return sum;
}

at::Tensor& int_mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  check_whole(self, mat2);
  TORCH_CHECK(out.scalar_type() == at::kInt, "int_mm_out_cpu: Expected result dtype to be kInt but got ", out.dtype());
  const NPUGuard guard(self.device().index());
  const at::Tensor result = int_mm(self, mat2);
  resize_out(out, result.sizes());
  return out.copy_(result);
}

at::Tensor weight_int8pack_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scales) {
  constexpr const char* kName = "_weight_int8pack_mm_cpu";
  const at::ScalarType type = self.scalar_type();
  const bool half = type == at::kHalf || type == at::kBFloat16;
  TORCH_CHECK(type == at::kFloat || half, kName, " : expect A to be either 32-bit or 16-bit float tensor.");
  TORCH_CHECK(self.dim() == 2, kName, " : expect A to be 2D tensor.");
  TORCH_CHECK(self.stride(1) == 1, kName, " : A must be contiguous on the last dimension.");
  TORCH_CHECK(mat2.scalar_type() == at::kChar, kName, " : expect B to be int8 tensor.");
  TORCH_CHECK(mat2.is_contiguous(), kName, " : expect B to be contiguous.");
  TORCH_CHECK(mat2.dim() == 2 && mat2.size(1) == self.size(1), kName, " : expect B.size(1) == ", self.size(1));
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == mat2.size(0), kName, " : expect scales to be 1d tensor with size ",
              mat2.size(0));
  TORCH_CHECK(scales.scalar_type() == type, "expected scalar type ", type, " but found ", scales.scalar_type());
  const NPUGuard guard(self.device().index());
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  if (!half || self.numel() == 0 || mat2.numel() == 0) return self.mm(mat2.to(type).t()).mul(scales);
  const at::Tensor out = empty({self.size(0), mat2.size(0)}, type);
  ACLNN(aclnnWeightQuantBatchMatmulV2)
  (self, mat2.t(), scales, nullptr, nullptr, nullptr, nullptr, 0, out);
  return out;
}

bool is_float8(at::ScalarType type) {
  return type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2 || type == at::kFloat8_e4m3fnuz ||
         type == at::kFloat8_e5m2fnuz;
}

void check_factors(const at::Tensor& self, const at::Tensor& mat2, const OptionalTensor& bias) {
  TORCH_CHECK(self.dim() == 2, "mat1 must be a matrix");
  TORCH_CHECK(mat2.dim() == 2, "mat2 must be a matrix");
  TORCH_CHECK(self.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  TORCH_CHECK(!bias || !bias->defined() || bias->numel() == mat2.size(1), "Bias must be size ", mat2.size(1),
              " but got ", bias->numel());
}

// A number for a whole matrix, or one for each row of the first and each column of the second.
void check_scales(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                  const at::Tensor& scale_b) {
  const bool one = scale_a.numel() == 1 && scale_b.numel() == 1;
  const bool each = scale_a.dim() == 2 && scale_a.size(0) == self.size(0) && scale_a.size(1) == 1 &&
                    scale_b.dim() == 2 && scale_b.size(0) == 1 && scale_b.size(1) == mat2.size(1);
  TORCH_CHECK_VALUE(
      is_float8(self.scalar_type()) && is_float8(mat2.scalar_type()) && (one || each),
      "Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8, scales should "
      "be float and singletons.\n- For RowWise scaling, a and b should be float8, scales should be float, "
      "scale_a should be (",
      self.size(0), ", 1) and scale_b should be (1, ", mat2.size(1),
      "), and both should be contiguous.\nGot a.dtype()=", self.scalar_type(),
      ", scale_a.dtype()=", scale_a.scalar_type(), ", scale_a.size()=", scale_a.sizes(),
      ", b.dtype()=", mat2.scalar_type(), ", scale_b.dtype()=", scale_b.scalar_type(),
      ", scale_b.size()=", scale_b.sizes());
}

at::Tensor scaled(const at::Tensor& matrix, const at::Tensor& scale) {
  const at::Tensor factor = scale.numel() == 1 ? scale.reshape({}) : scale;
  return matrix.to(at::kFloat).mul(factor.to(at::kFloat));
}

// The scale of the result is not used, as by the CPU's kernel.
at::Tensor scaled_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                     const at::Tensor& scale_b, const OptionalTensor& bias, const OptionalTensor& /*scale_result*/,
                     std::optional<at::ScalarType> out_dtype, bool /*use_fast_accum*/) {
  check_factors(self, mat2, bias);
  check_scales(self, mat2, scale_a, scale_b);
  const NPUGuard guard(self.device().index());
  const at::ScalarType type = out_dtype.value_or(self.scalar_type());
  const bool is_written = is_float8(type) || type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  TORCH_CHECK(is_written || type == at::kChar,
              "itensor_view_from_dense expects float/bfloat16/half/int8/fp8 tensor input", type);
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  at::Tensor result = scaled(self, scale_a).mm(scaled(mat2, scale_b));
  if (bias && bias->defined()) result = result.add(bias->to(at::kFloat));
  return result.to(type);
}

constexpr const char* kOtherType = "out_dtype must match output matrix type";

at::Tensor& given(const at::Tensor& result, at::Tensor& out) {
  resize_out(out, result.sizes());
  return out.copy_(result);
}

at::Tensor& scaled_mm_out(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                          const at::Tensor& scale_b, const OptionalTensor& bias, const OptionalTensor& scale_result,
                          std::optional<at::ScalarType> out_dtype, bool use_fast_accum, at::Tensor& out) {
  check_factors(self, mat2, bias);
  check_scales(self, mat2, scale_a, scale_b);
  const at::ScalarType type = out.scalar_type();
  TORCH_CHECK(!out_dtype || *out_dtype == type, kOtherType);
  return given(scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, type, use_fast_accum), out);
}

// The second version, with lists of scales and of what each means.
at::Tensor scaled_mm_v2(const at::Tensor& self, const at::Tensor& mat2, at::TensorList scale_a,
                        at::IntArrayRef recipe_a, at::IntArrayRef /*swizzle_a*/, at::TensorList scale_b,
                        at::IntArrayRef recipe_b, at::IntArrayRef /*swizzle_b*/, const OptionalTensor& bias,
                        std::optional<at::ScalarType> out_dtype, at::IntArrayRef contraction_dim, bool use_fast_accum) {
  constexpr int64_t kRow = 1;  // at::blas::ScalingType: the whole matrix, each row
  TORCH_CHECK_VALUE(scale_a.size() == 1 && scale_b.size() == 1 && recipe_a.size() == 1 && recipe_b.size() == 1 &&
                        recipe_a[0] == recipe_b[0] && recipe_a[0] <= kRow,
                    "npu: _scaled_mm_v2 takes one scale of each matrix, for the whole or by rows (recipes ", recipe_a,
                    " and ", recipe_b, " given); scale blocks by hand, or use torch.ops.npu.npu_quant_matmul");
  TORCH_CHECK_VALUE(
      contraction_dim.empty() || (contraction_dim.size() == 2 && contraction_dim[0] == 1 && contraction_dim[1] == 0),
      "npu: _scaled_mm_v2 contracts dimension 1 of the first matrix and 0 of the second, not ", contraction_dim,
      "; transpose them first");
  const bool by_row = recipe_a[0] == kRow;
  const at::Tensor a = by_row ? scale_a[0].reshape({-1, 1}) : scale_a[0];
  const at::Tensor b = by_row ? scale_b[0].reshape({1, -1}) : scale_b[0];
  return scaled_mm(self, mat2, a, b, bias, std::nullopt, out_dtype, use_fast_accum);
}

at::Tensor& scaled_mm_v2_out(const at::Tensor& self, const at::Tensor& mat2, at::TensorList scale_a,
                             at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                             at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b, const OptionalTensor& bias,
                             std::optional<at::ScalarType> out_dtype, at::IntArrayRef contraction_dim,
                             bool use_fast_accum, at::Tensor& out) {
  const at::ScalarType type = out.scalar_type();
  TORCH_CHECK_VALUE(!out_dtype || *out_dtype == type, kOtherType);
  return given(scaled_mm_v2(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, type,
                            contraction_dim, use_fast_accum),
               out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_int_mm", NPU_FN(int_mm));
  m.impl("_int_mm.out", NPU_FN(int_mm_out));
  m.impl("_weight_int8pack_mm", NPU_FN(weight_int8pack_mm));
  m.impl("_scaled_mm", NPU_FN(scaled_mm));
  m.impl("_scaled_mm.out", NPU_FN(scaled_mm_out));
  m.impl("_scaled_mm_v2", NPU_FN(scaled_mm_v2));
  m.impl("_scaled_mm_v2.out", NPU_FN(scaled_mm_v2_out));
}

}  // namespace npu
