// Bodies of params.h.
#include "csrc/ops/params.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/result_type_native.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/TypeCast.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

namespace npu {

namespace {

constexpr int8_t kKeepDtype = 0, kUseHf32 = 3;
std::atomic<bool> allow_hf32_matmul{false}, allow_hf32_conv{true};  // as torch.npu.matmul and torch.npu.conv

}  // namespace

int8_t cube_math_type() { return allow_hf32_matmul.load(std::memory_order_relaxed) ? kUseHf32 : kKeepDtype; }
int8_t conv_math_type() { return allow_hf32_conv.load(std::memory_order_relaxed) ? kUseHf32 : kKeepDtype; }

void set_allow_hf32(bool matmul, bool conv) {
  allow_hf32_matmul = matmul;
  allow_hf32_conv = conv;
}

Ints all_dims(const at::Tensor& self) {
  Ints dims(self.dim());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Ints dims_or_all(at::OptionalIntArrayRef dim, const at::Tensor& self) {
  return dim ? dims_or_all(*dim, self) : all_dims(self);
}

Ints dims_or_all(at::IntArrayRef dim, const at::Tensor& self) {
  return dim.empty() ? all_dims(self) : Ints(dim.begin(), dim.end());
}

int div_mode(std::optional<std::string_view> rounding_mode) {
  if (!rounding_mode) return 0;
  if (*rounding_mode == "trunc") return 1;
  if (*rounding_mode == "floor") return 2;
  TORCH_CHECK(false, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *rounding_mode,
              "'");
}

int64_t scatter_mode(std::string_view reduce) {
  if (reduce == "add") return 1;
  if (reduce == "multiply") return 2;
  TORCH_CHECK(false, "reduce argument must be either add or multiply.");
}

int64_t scatter_reduce_mode(std::string_view reduce) {
  constexpr std::string_view kNames[] = {"sum", "prod", "amax", "amin", "mean"};
  for (int64_t i = 0; i < 5; ++i) {
    if (reduce == kNames[i]) return i + 1;
  }
  TORCH_CHECK(false, "reduce argument must be either sum, prod, mean, amax or amin, got ", reduce);
}

int64_t qr_mode(std::string_view mode) {
  if (mode == "reduced") return 0;
  if (mode == "complete") return 1;
  if (mode == "r") return 2;
  TORCH_CHECK(false, "qr received unrecognized mode '", mode,
              "' but expected one of 'reduced' (default), 'r', or 'complete'");
}

at::ScalarType sum_type(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  if (dtype) return *dtype;
  return c10::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type();
}

at::ScalarType float_type(const at::Tensor& self) {
  return c10::isIntegralType(self.scalar_type(), true) ? c10::get_default_dtype_as_scalartype() : self.scalar_type();
}

double dtype_max(const at::Tensor& self) {
  switch (self.scalar_type()) {
    case at::kHalf:
      return static_cast<float>(std::numeric_limits<at::Half>::max());
    case at::kBFloat16:
      return static_cast<float>(std::numeric_limits<at::BFloat16>::max());
    case at::kDouble:
    case at::kComplexDouble:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

at::Tensor weight_or_ones(const std::optional<at::Tensor>& weight, const at::Tensor& self) {
  if (weight && weight->defined()) return weight->contiguous();
  return at::ones({self.dim() > 0 ? self.size(self.dim() == 1 ? 0 : 1) : 1}, self.options());
}

void check_addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2) {
  if (mat1.dim() != 2 || mat2.dim() != 2 || mat1.size(1) != mat2.size(0)) return;
  const int64_t sizes[] = {mat1.size(0), mat2.size(1)};
  if (!at::is_expandable_to(self.sizes(), sizes)) self.expand(sizes);  // throws what the CPU throws
}

void check_empty_product(const at::Tensor& self, const at::Tensor& first, const at::Tensor& second,
                         const at::Scalar& beta, bool summed) {
  if (first.numel() != 0 || beta.equal(0) || first.dim() < 2 || second.dim() != first.dim()) return;
  const bool empty = first.size(-2) == 0 || second.size(-1) == 0 || (!summed && first.dim() == 3 && first.size(0) == 0);
  if (empty) return;
  const at::ScalarType type = at::native::result_type(self, beta);
  TORCH_CHECK(c10::canCast(type, self.scalar_type()), "result type ", type,
              " can't be cast to the desired output type ", self.scalar_type());
}

void check_mv(const at::Tensor& self, const at::Tensor& vec) {
  TORCH_CHECK(self.dim() == 2 && vec.dim() == 1, "vector + matrix @ vector expected, got ", self.dim(), ", ",
              vec.dim());
  TORCH_CHECK(self.size(1) == vec.size(0), "size mismatch, got input (", self.size(0), "), mat (", self.size(0), "x",
              self.size(1), "), vec (", vec.size(0), ")");
  TORCH_CHECK(self.scalar_type() == vec.scalar_type(), "expected scalar type ", self.scalar_type(), " but found ",
              vec.scalar_type());
}

void check_dot(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
              " elements respectively");
}

void check_same_type(std::initializer_list<std::reference_wrapper<const at::Tensor>> tensors) {
  const at::ScalarType type = tensors.begin()->get().scalar_type();
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.scalar_type() == type, "expected all operands to have the same dtype, but got: ", type,
                " != ", tensor.scalar_type());
  }
}

void check_kth(const at::Tensor& self, int64_t k, int64_t dim) {
  const int64_t wrapped = at::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.dim() > 0 ? self.size(wrapped) : 1;
  TORCH_CHECK_INDEX(size != 0, "kthvalue(): Expected reduction dim ", wrapped, " to have non-zero size.");
  TORCH_CHECK(k >= 1 && k <= size, "kthvalue(): selected number k out of range for dimension ", dim);
}

void check_roll(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  TORCH_CHECK(shifts.size() == dims.size() || (shifts.size() == 1 && dims.empty()),
              "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  for (const int64_t dim : dims) at::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/false);
}

void check_same_shape(const at::Tensor& input, const at::Tensor& indices) {
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(input.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              input.sizes(), ") but got indices tensor with shape: ", indices.sizes());
}

void check_boundaries(const at::Tensor& boundaries) {
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
}

void check_matrix(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
}

void check_grid_sampler_3d(const at::Tensor& input, const at::Tensor& grid, int64_t interpolation) {
  check_same_type({input, grid});
  constexpr int64_t kBicubic = 2;
  TORCH_CHECK(interpolation != kBicubic, "grid_sampler(): bicubic interpolation only supports 4D input");
}

void check_padding(const at::Tensor& self, at::IntArrayRef pad, const at::Scalar& value) {
  const bool fills = std::any_of(pad.begin(), pad.end(), [](int64_t n) { return n > 0; });
  if (fills) check_fits(value, self.scalar_type());
}

void check_pooled(const at::Tensor& grad_output, const char* op) {
  for (int64_t i = 1; i < grad_output.dim(); ++i)
    TORCH_CHECK(grad_output.size(i) > 0, op, "(): Expected grad_output to have non-zero size for non-batch ",
                "dimensions, but grad_output has sizes ", grad_output.sizes(), " with dimension ", i, " being empty");
}

bool is_tanh(std::string_view approximate) {
  if (approximate == "none") return false;
  TORCH_CHECK(approximate == "tanh", "approximate argument must be either none or tanh.");
  return true;
}

void check_not_empty(const at::Tensor& self, const char* name) {
  TORCH_CHECK(self.numel() > 0, name, "(): Expected reduction dim to be specified for input.numel() == 0. ",
              "Specify the reduction dim with the 'dim' argument.");
}

void check_fits(const at::Scalar& value, at::ScalarType type) {
#define NPU_FITS(ctype, name)             \
  case at::ScalarType::name:              \
    static_cast<void>(value.to<ctype>()); \
    return;
  switch (type) {
    AT_FORALL_SCALAR_TYPES_AND3(Half, BFloat16, Bool, NPU_FITS)
    AT_FORALL_FLOAT8_TYPES(NPU_FITS)
    NPU_FITS(uint16_t, UInt16)
    NPU_FITS(uint32_t, UInt32)
    NPU_FITS(uint64_t, UInt64)
    default:
      return;
  }
#undef NPU_FITS
}

void check_bounds(const at::Tensor& self, const std::optional<at::Scalar>& low, const std::optional<at::Scalar>& high) {
  if (!c10::isIntegralType(self.scalar_type(), /*includeBool=*/false)) return;
  for (const auto* bound : {&low, &high}) {
    if (*bound && (*bound)->isIntegral(/*includeBool=*/true)) check_fits(**bound, self.scalar_type());
  }
}

at::Scalar as_copied(const at::Scalar& value, at::ScalarType type) {
#define NPU_COPIED(ctype, name)                                                                \
  case at::ScalarType::name:                                                                   \
    if (value.isComplex()) return c10::convert<ctype>(value.toComplexDouble());                \
    if (value.isFloatingPoint()) return c10::convert<ctype>(value.toDouble());                 \
    if (value.type() == at::kUInt64) return at::Scalar(c10::convert<ctype>(value.toUInt64())); \
    return value.isIntegral(/*includeBool=*/false) ? at::Scalar(c10::convert<ctype>(value.toLong())) : value;
  switch (type) {
    AT_FORALL_SCALAR_TYPES_AND3(Half, BFloat16, Bool, NPU_COPIED)
    default:
      return value;
  }
#undef NPU_COPIED
}

void check_flip(const at::Tensor& self, at::IntArrayRef dims) { at::dim_list_to_bitset(dims, self.dim()); }

void check_histc(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  TORCH_CHECK(bins > 0, "torch.histc: bins must be > 0, but got ", bins);
  double low = min.toDouble(), high = max.toDouble();
  if (low == high && self.numel() > 0) {  // the range is the data's: asked for, as on CUDA
    low = self.min().item().toDouble();
    high = self.max().item().toDouble();
  }
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high), "torch.histc: range of [", low, ", ", high, "] is not finite");
  TORCH_CHECK(low <= high, "torch.histc: max must be larger than min");
}

void check_index(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  if (self.numel() != 0 || index.numel() == 0 || self.dim() == 0) return;
  const int64_t size = self.size(at::maybe_wrap_dim(dim, self.dim()));
  const auto check = [&](int64_t i) {
    TORCH_CHECK(i >= 0 && i < size, "index ", i, " is out of bounds for dimension ", dim, " with size ", size);
  };
  if (size == 0) check(0);
  check(index.min().item<int64_t>());
  check(index.max().item<int64_t>());
}

void check_scatter_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, std::string_view reduce) {
  const bool takes = reduce == "mean"                       ? self.scalar_type() != at::kBool
                     : reduce == "amax" || reduce == "amin" ? !self.is_complex()
                                                            : true;
  TORCH_CHECK_NOT_IMPLEMENTED(takes, "scatter_reduce(): \"", reduce, "\" not implemented for '", self.scalar_type(),
                              "'");
  check_index(self, dim, index);
}

at::Scalar number_of(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return *static_cast<const double*>(data);
    case at::kLong:
      return *static_cast<const int64_t*>(data);
    case at::kFloat:
      return *static_cast<const float*>(data);
    case at::kBool:
      return *static_cast<const bool*>(data);
    default:
      return tensor.item();
  }
}

bool takes_number(const at::Tensor& number, const at::Tensor& other) {
  if (!number.is_cpu() || number.dim() != 0) return false;
  return number.unsafeGetTensorImpl()->is_wrapped_number() || number.scalar_type() == other.scalar_type() ||
         (other.dim() > 0 && c10::isFloatingType(other.scalar_type()) && !number.is_complex());
}

}  // namespace npu
