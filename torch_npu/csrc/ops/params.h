// Values that rows of ops/aten.yaml give to aclnn parameters: what CANN codes as numbers and PyTorch as words or absences.
// What it is not: shapes (meta.h) or conversions of types (aclnn_call.h). Who uses it: generated wrappers and hand-written operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string_view>

#include "csrc/cann/export.h"

namespace npu {

using Ints = c10::SmallVector<int64_t, 8>;

// CANN's cube math type: 0 keeps the dtype, 3 computes fp32 matrix products in hf32 (torch.backends' allow_hf32).
int8_t cube_math_type();
int8_t conv_math_type();
NPU_API void set_allow_hf32(bool matmul, bool conv);

// Every dimension of self, or those given. CANN takes an empty list differently from operator to operator: never send one.
Ints all_dims(const at::Tensor& self);
Ints dims_or_all(at::OptionalIntArrayRef dim, const at::Tensor& self);
Ints dims_or_all(at::IntArrayRef dim, const at::Tensor& self);
inline Ints one_dim(int64_t dim) { return {dim}; }

// A pooling operator's stride defaults to its kernel.
inline at::IntArrayRef stride_or(at::IntArrayRef stride, at::IntArrayRef kernel) {
  return stride.empty() ? kernel : stride;
}

int div_mode(std::optional<std::string_view> rounding_mode);  // aclnnDivMod: 0 true, 1 trunc, 2 floor
int64_t scatter_mode(std::string_view reduce);                // aclnnScatter: 0 replace, 1 add, 2 multiply
int64_t scatter_reduce_mode(std::string_view reduce);  // aclnnScatterReduce: 1 sum, 2 prod, 3 amax, 4 amin, 5 mean
int64_t qr_mode(std::string_view mode);                // aclnnLinalgQr: 0 reduced, 1 complete, 2 r

at::ScalarType sum_type(const at::Tensor& self, std::optional<at::ScalarType> dtype);  // integers are summed as int64
at::ScalarType float_type(const at::Tensor& self);  // integers become the default float
double dtype_max(const at::Tensor& self);
at::Tensor weight_or_ones(const std::optional<at::Tensor>& weight,
                          const at::Tensor& self);  // CANN's NLLLoss needs a weight

// The addend broadcasts to the product. Factors that cannot be multiplied are left to PyTorch's meta function.
void check_addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2);
// A product over nothing leaves beta * self, in self's type: refused at the call where the CPU refuses it, for a kernel's error comes late.
// summed: the products of a batch are added up, so that a batch of none is nothing, too.
void check_empty_product(const at::Tensor& self, const at::Tensor& first, const at::Tensor& second,
                         const at::Scalar& beta, bool summed = false);
void check_mv(const at::Tensor& self, const at::Tensor& vec);
void check_dot(const at::Tensor& self, const at::Tensor& other);
// Operands whose types PyTorch does not promote.
void check_same_type(std::initializer_list<std::reference_wrapper<const at::Tensor>> tensors);
void check_kth(const at::Tensor& self, int64_t k, int64_t dim);
void check_roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims);
void check_same_shape(const at::Tensor& input, const at::Tensor& indices);  // max_unpool
void check_boundaries(const at::Tensor& boundaries);                        // bucketize
void check_matrix(const at::Tensor& self);                                  // trace
void check_grid_sampler_3d(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation);
void check_padding(const at::Tensor& self, at::IntArrayRef pad,
                   const at::Scalar& value);                       // the value, where there is one
void check_pooled(const at::Tensor& grad_output, const char* op);  // adaptive: only a batch may be empty
bool is_tanh(std::string_view approximate);                        // gelu; throws if it is neither "none" nor "tanh"
void check_not_empty(const at::Tensor& self, const char* name);    // a reduction without a neutral element

// Throws as the CPU does where `value` is beyond the type's range. Asked before the call: a kernel's error comes too late
// to name the line, and ends the device.
void check_fits(const at::Scalar& value, at::ScalarType type);
// The same for a bound of clamp: an integer that stays one.
void check_bounds(const at::Tensor& self, const std::optional<at::Scalar>& low, const std::optional<at::Scalar>& high);

// The number as a copy into a tensor of this type would leave it: infinite or wrapped where it does not fit.
at::Scalar as_copied(const at::Scalar& value, at::ScalarType type);

void check_flip(const at::Tensor& self, at::IntArrayRef dims);
void check_histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max);
// Indices into a tensor without elements, which no kernel sees: all must still be in range.
void check_index(const at::Tensor& self, int64_t dim, const at::Tensor& index);
// The same, and whether the reduction takes the type.
void check_scatter_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, std::string_view reduce);

// The value of a 0-dim CPU tensor, without the dispatcher.
at::Scalar number_of(const at::Tensor& tensor);

// May `number`, a 0-dim CPU tensor, be given as an aclScalar? Not if its dtype decides the result's: a 0-dim tensor that is no
// wrapped number promotes other 0-dim tensors.
bool takes_number(const at::Tensor& number, const at::Tensor& other);

}  // namespace npu
