// Bodies of meta.h. Long because it is a list: one body a class there, in its order, and nothing between them but three helpers.
#include "csrc/ops/meta.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/result_type_native.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/safe_numerics.h>

#include "csrc/core/empty.h"

namespace npu::meta {

void Unary::meta(const at::Tensor& self) { build_borrowing_unary_op(maybe_get_output(), self); }

void UnaryFloat::meta(const at::Tensor& self) { build_borrowing_unary_float_op(maybe_get_output(), self); }

void UnaryBool::meta(const at::Tensor& self) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).add_output(maybe_get_output()).add_const_input(self);
  if (!maybe_get_output().defined()) config.declare_static_dtype(at::kBool);
  build(config);
}

void UnaryReal::meta(const at::Tensor& self) {
  if (!self.is_complex()) return build_borrowing_unary_op(maybe_get_output(), self);
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).add_output(maybe_get_output()).add_const_input(self);
  if (!maybe_get_output().defined()) config.declare_static_dtype(c10::toRealValueType(self.scalar_type()));
  build(config);
}

void Binary::meta(const at::Tensor& self, const at::Tensor& other) {
  build_borrowing_binary_op(maybe_get_output(), self, other);
}

void BinaryFloat::meta(const at::Tensor& self, const at::Tensor& other) {
  build_borrowing_binary_float_op(maybe_get_output(), self, other);
}

void Compare::meta(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::native::result_type(self, other) != at::kComplexHalf,
                              "npu: operands of type torch.complex32 are not compared");
  build_borrowing_comparison_op(maybe_get_output(), self, other);
}

void Where::meta(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  const at::ScalarType type =
      maybe_get_output().defined() ? maybe_get_output().scalar_type() : at::native::result_type(self, other);
  TORCH_CHECK(!maybe_get_output().defined() || type == at::native::result_type(self, other), "Expected out type to be ",
              at::native::result_type(self, other), " but got ", type);
  // An iterator takes one number from the CPU; all three may be some here.
  const auto here = [](const at::Tensor& tensor) {
    return tensor.is_cpu() && tensor.dim() == 0 ? empty({}, tensor.scalar_type()) : tensor;
  };
  build(at::TensorIteratorConfig()
            .check_all_same_dtype(false)
            .add_output(maybe_get_output())
            .add_owned_const_input(here(condition))
            .add_owned_const_input(here(self))
            .add_owned_const_input(here(other))
            .declare_static_dtype(type));
}

void Ternary::meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  build(at::TensorIteratorConfig()
            .add_output(maybe_get_output())
            .add_const_input(a)
            .add_const_input(b)
            .add_const_input(c)
            .promote_inputs_to_common_dtype(true)
            .cast_common_dtype_to_outputs(true)
            .enforce_safe_casting_to_output(true)
            .allow_cpu_scalars(true));
}

namespace {

// Strides as torch.empty_like gives them; none for contiguous ones.
c10::DimVector strides_like(const at::Tensor& self) {
  if (self.is_contiguous()) return {};
  if (self.is_non_overlapping_and_dense()) return c10::DimVector(self.strides());
  const std::vector<int64_t> strides = at::infer_dense_strides(self.sizes(), self.strides());
  return c10::DimVector(strides.begin(), strides.end());
}

c10::MemoryFormat format_like(const at::Tensor& self) { return self.suggest_memory_format(); }

c10::DimVector reduced_sizes(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  c10::DimVector sizes(self.sizes());
  const auto mask = at::dim_list_to_bitset(dim && !dim->empty() ? dim : at::OptionalIntArrayRef(), self.dim());
  for (int64_t i = self.dim() - 1; i >= 0; --i) {
    if (!mask[i]) continue;
    if (keepdim) {
      sizes[i] = 1;
    } else {
      sizes.erase(sizes.begin() + i);
    }
  }
  return sizes;
}

}  // namespace

void Loss::meta(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  meta(self, target, reduction, at::native::result_type(self, target));
}

void Loss::meta(const at::Tensor& self, const at::Tensor& target, int64_t reduction, at::ScalarType type) {
  if (reduction == at::Reduction::None) {
    const auto sizes = at::infer_size_dimvector(self.sizes(), target.sizes());
    const bool alike = self.sizes() == target.sizes();
    set_output_raw_strided(0, sizes, alike ? strides_like(self) : c10::DimVector(), self.options().dtype(type));
  } else {
    at::infer_size_dimvector(self.sizes(), target.sizes());
    set_output_raw_strided(0, {}, {}, self.options().dtype(type));
  }
}

void Shape::meta(const at::Tensor& self, at::IntArrayRef sizes) {
  set_output_raw_strided(0, sizes, {}, self.options());
}

void Shape::meta(const at::Tensor& self, at::IntArrayRef sizes, at::ScalarType type) {
  set_output_raw_strided(0, sizes, {}, self.options().dtype(type));
}

void Like::meta(const at::Tensor& self) { meta(self, self.scalar_type()); }

void Like::meta(const at::Tensor& self, at::ScalarType type) {
  set_output_raw_strided(0, self.sizes(), strides_like(self), self.options().dtype(type));
}

void InFormat::meta(const at::Tensor& self) {
  set_output_raw_strided(0, self.sizes(), {}, self.options().memory_format(format_like(self)));
}

void LikeEach::meta(std::initializer_list<std::reference_wrapper<const at::Tensor>> tensors) {
  int64_t i = 0;
  for (const at::Tensor& tensor : tensors) {
    set_output_raw_strided(i++, tensor.sizes(), strides_like(tensor), tensor.options());
  }
}

void Reduced::meta(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, at::ScalarType type) {
  set_output_raw_strided(0, reduced_sizes(self, dim, keepdim), {}, self.options().dtype(type));
}

void ReducedPair::meta(const at::Tensor& self, int64_t dim, bool keepdim) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  for (const int64_t i : {0, 1}) {
    if (maybe_get_output(i).defined()) at::assert_no_overlap(maybe_get_output(i), self);
  }
  c10::DimVector sizes(self.sizes());
  if (!sizes.empty()) {
    TORCH_CHECK_INDEX(sizes[dim] != 0, "Expected reduction dim ", dim, " to have non-zero size.");
    if (keepdim) {
      sizes[dim] = 1;
    } else {
      sizes.erase(sizes.begin() + dim);
    }
  }
  set_output_raw_strided(0, sizes, {}, self.options());
  set_output_raw_strided(1, sizes, {}, self.options().dtype(at::kLong));
}

void VarMean::meta(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "std and var only support floating point and complex dtypes");
  const c10::DimVector sizes = reduced_sizes(self, dim, keepdim);
  set_output_raw_strided(0, sizes, {}, self.options().dtype(c10::toRealValueType(self.scalar_type())));
  set_output_raw_strided(1, sizes, {}, self.options());
}

void ToComplex::meta(const at::Tensor& real, const at::Tensor& imag) {
  TORCH_CHECK(real.scalar_type() == imag.scalar_type() && real.is_floating_point(),
              "Expected both inputs to be Half, Float or Double tensors but got ", real.scalar_type(), " and ",
              imag.scalar_type());
  const at::ScalarType type = c10::toComplexType(real.scalar_type());
  TORCH_CHECK(!maybe_get_output().defined() || maybe_get_output().scalar_type() == type,
              "Expected object of scalar type ", type, " but got scalar type ", maybe_get_output().scalar_type(),
              " for argument 'out'");
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).add_output(maybe_get_output()).add_const_input(real).add_const_input(imag);
  if (!maybe_get_output().defined()) config.declare_static_dtype(type);
  build(config);
}

void Pooled::meta(const at::Tensor& self, at::IntArrayRef output_size) { meta(self, output_size, format_like(self)); }

void Pooled::meta(const at::Tensor& self, at::IntArrayRef output_size, at::MemoryFormat format) {
  const int64_t n = static_cast<int64_t>(output_size.size());
  TORCH_CHECK(self.dim() == n + 1 || self.dim() == n + 2, "Expected a ", n + 1, "D or ", n + 2, "D input, but got ",
              self.sizes());
  c10::DimVector sizes(self.sizes());
  for (int64_t i = 0; i < n; ++i) {
    TORCH_CHECK(output_size[i] >= 0, "elements of output_size must be greater than or equal to 0 but received ",
                output_size);
    int64_t& size = sizes[self.dim() - n + i];
    TORCH_CHECK(size > 0, "Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
                self.sizes());
    size = output_size[i];
  }
  set_output_raw_strided(0, sizes, {}, self.options().memory_format(format));
}

void Padded::meta(const at::Tensor& self, at::IntArrayRef padding) {
  c10::DimVector sizes(self.sizes());
  const int64_t n = static_cast<int64_t>(padding.size() / 2);
  TORCH_CHECK(padding.size() % 2 == 0 && n < self.dim(), "padding of size ", padding.size(),
              " does not fit an input of shape ", self.sizes());
  for (int64_t i = 0; i < n; ++i) {
    int64_t& size = sizes[self.dim() - 1 - i];
    const int64_t left = padding[2 * i], right = padding[2 * i + 1];
    TORCH_CHECK(left < size && right < size,
                "Padding size should be less than the corresponding input dimension, but got: padding (", left, ", ",
                right, ") at dimension ", self.dim() - 1 - i, " of input ", self.sizes());
    size += left + right;
    TORCH_CHECK(size >= 1, "input ", self.sizes(), " is too small for padding ", padding);
  }
  set_output_raw_strided(0, sizes, {}, self.options().memory_format(format_like(self)));
}

void Replicated::meta(const at::Tensor& self, at::IntArrayRef padding) {
  c10::DimVector sizes(self.sizes());
  const int64_t n = static_cast<int64_t>(padding.size() / 2);
  TORCH_CHECK(padding.size() % 2 == 0 && (self.dim() == n + 1 || self.dim() == n + 2), "padding of size ",
              padding.size(), " does not fit an input of shape ", self.sizes());
  for (int64_t i = 0; i <= n; ++i) {
    int64_t& size = sizes[self.dim() - 1 - i];
    TORCH_CHECK(size != 0, "Expected ", n + 1, "D or ", n + 2,
                "D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: ",
                self.sizes());
    if (i == n) break;  // the channels
    size += padding[2 * i] + padding[2 * i + 1];
    TORCH_CHECK(size >= 1, "input ", self.sizes(), " is too small for padding ", padding);
  }
  set_output_raw_strided(0, sizes, {}, self.options().memory_format(format_like(self)));
}

namespace {

// The caller's output must not be what the operator reads.
void check_apart(const at::Tensor& out, std::initializer_list<std::reference_wrapper<const at::Tensor>> inputs) {
  if (!out.defined()) return;
  at::assert_no_internal_overlap(out);
  for (const at::Tensor& input : inputs) at::assert_no_overlap(out, input);
}

}  // namespace

void Taken::meta(const at::Tensor& self, const at::Tensor& index) {
  TORCH_CHECK(index.scalar_type() == at::kLong, "take(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK_INDEX(!(self.numel() == 0 && index.numel() != 0), "take(): tried to take from an empty tensor");
  check_apart(maybe_get_output(), {self, index});
  set_output_raw_strided(0, index.sizes(), {}, self.options());
}

void IndexSelected::meta(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  check_apart(maybe_get_output(), {self, index});
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index but got: ", index.scalar_type());
  c10::DimVector sizes(self.sizes());
  if (!sizes.empty()) {
    sizes[dim] = index.numel();
  } else {
    TORCH_CHECK(index.numel() == 1, "index_select(): Index to scalar can have only 1 value, got ", index.numel(),
                " value(s)");
  }
  set_output_raw_strided(0, sizes, {}, self.options());
}

void Im2col::meta(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                  at::IntArrayRef stride) {
  const int64_t dim = self.dim();
  TORCH_CHECK(dim == 3 || dim == 4, "Expected 3D or 4D input tensor to im2col, but got ", self.sizes());
  TORCH_CHECK(kernel.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2,
              "It is expected kernel_size, dilation, padding and stride equals to 2");
  int64_t blocks = 1;
  for (int64_t i = 0; i < 2; ++i) {
    TORCH_CHECK(kernel[i] > 0 && dilation[i] > 0 && stride[i] > 0 && padding[i] >= 0,
                "im2col: kernel, dilation and stride must be positive, padding not negative");
    int64_t reach = 0;
    const bool endless = c10::mul_overflows(dilation[i], kernel[i] - 1, &reach);
    const int64_t rest = self.size(dim - 2 + i) + 2 * padding[i] - 1 - reach;
    TORCH_CHECK(!endless && rest >= 0, "Given input with spatial size ", self.sizes(),
                ", im2col's array of sliding blocks has a size below 1");
    blocks *= rest / stride[i] + 1;
  }
  c10::DimVector sizes;
  if (dim == 4) sizes.push_back(self.size(0));
  sizes.push_back(self.size(dim - 3) * kernel[0] * kernel[1]);
  sizes.push_back(blocks);
  set_output_raw_strided(0, sizes, {}, self.options());
}

void Col2im::meta(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel, at::IntArrayRef dilation,
                  at::IntArrayRef padding, at::IntArrayRef stride) {
  const int64_t dim = self.dim();
  TORCH_CHECK(dim == 2 || dim == 3, "Expected 2D or 3D input tensor for col2im, but got ", self.sizes());
  TORCH_CHECK(output_size.size() == 2 && kernel.size() == 2, "It is expected output_size and kernel_size equals to 2");
  const int64_t planes = self.size(dim - 2);
  int64_t window = 0;
  TORCH_CHECK(
      kernel[0] > 0 && kernel[1] > 0 && !c10::mul_overflows(kernel[0], kernel[1], &window) && planes % window == 0,
      "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got ", planes, " and ",
      kernel);
  int64_t blocks = 1;
  for (size_t i = 0; i < 2; ++i) {
    TORCH_CHECK(dilation[i] > 0 && stride[i] > 0 && padding[i] >= 0,
                "col2im: stride and dilation should be greater than zero, and padding not negative, but got ", stride,
                ", ", dilation, " and ", padding);
    blocks *= div_rtn<int64_t>(output_size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1, stride[i]) + 1;
  }
  TORCH_CHECK(self.size(dim - 1) == blocks, "Given output_size=", output_size, ", kernel_size=", kernel,
              ", dilation=", dilation, ", padding=", padding, ", stride=", stride,
              ", expected size of input's dimension ", dim - 1, " to match the calculated number of sliding blocks ",
              blocks, ", but got ", self.size(dim - 1));
  c10::DimVector sizes;
  if (dim == 3) sizes.push_back(self.size(0));
  sizes.push_back(planes / window);
  sizes.push_back(output_size[0]);
  sizes.push_back(output_size[1]);
  set_output_raw_strided(0, sizes, {}, self.options());
}

void GridSampled::meta(const at::Tensor& input, const at::Tensor& grid) {
  const int64_t dim = input.dim();
  TORCH_CHECK(dim == grid.dim() && input.size(0) == grid.size(0) && grid.size(-1) == dim - 2,
              "grid_sampler(): expected grid and input to have same batch size and a grid of ", dim - 2,
              " coordinates, but got input with sizes ", input.sizes(), " and grid with sizes ", grid.sizes());
  for (int64_t i = 2; i < dim; ++i)
    TORCH_CHECK(input.size(i) > 0,
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has ", "sizes ",
                input.sizes());
  c10::DimVector sizes{input.size(0), input.size(1)};
  for (int64_t i = 1; i < dim - 1; ++i) sizes.push_back(grid.size(i));
  set_output_raw_strided(0, sizes, {}, input.options());
}

void ChannelShuffled::meta(const at::Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
  TORCH_CHECK(self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ", self.size(1),
              " channels and ", groups, " groups.");
  set_output_raw_strided(0, self.sizes(), {}, self.options());
}

void ConstantPadded::meta(const at::Tensor& self, at::IntArrayRef pad) {
  TORCH_CHECK(pad.size() % 2 == 0, "Length of pad must be even but instead it equals ", pad.size());
  const int64_t n = static_cast<int64_t>(pad.size() / 2);
  TORCH_CHECK(n <= self.dim(),
              "Length of pad should be no more than twice the number of dimensions of the input. Pad length is ",
              pad.size(), " while the input has ", self.dim(), " dimensions.");
  c10::DimVector sizes(self.sizes());
  for (int64_t i = 0; i < n; ++i) {
    int64_t& size = sizes[self.dim() - 1 - i];
    const int64_t old = size;
    // Each side cuts off what is there, before anything is added.
    const int64_t before = std::min<int64_t>(pad[2 * i], 0), after = std::min<int64_t>(pad[2 * i + 1], 0);
    TORCH_CHECK(old + before >= 0 && old + before + after >= 0, "narrow(): length must be non-negative.");
    size += pad[2 * i] + pad[2 * i + 1];
    TORCH_CHECK(size >= 0, "The input size ", old, ", plus negative padding ", pad[2 * i], " and ", pad[2 * i + 1],
                " resulted in a negative output size, which is invalid. Check dimension ", self.dim() - 1 - i,
                " of your input.");
  }
  if (std::all_of(pad.begin(), pad.end(), [](int64_t n) { return n <= 0; })) {  // a clone of what is left
    const std::vector<int64_t> strides = at::infer_dense_strides(sizes, self.strides());
    return set_output_raw_strided(0, sizes, strides, self.options());
  }
  set_output_raw_strided(0, sizes, {}, self.options().memory_format(format_like(self)));
}

void Angle::meta(const at::Tensor& self) {
  const at::ScalarType type = c10::isIntegralType(self.scalar_type(), true) ? c10::get_default_dtype_as_scalartype()
                                                                            : c10::toRealValueType(self.scalar_type());
  set_output_raw_strided(0, self.sizes(), strides_like(self), self.options().dtype(type));
}

void Addr::meta(const at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2) {
  TORCH_CHECK(vec1.dim() == 1 && vec2.dim() == 1, "addr: Expected 1-D argument vec1 and vec2, but got ", vec1.dim(),
              "-D and ", vec2.dim(), "-D");
  const c10::DimVector sizes{vec1.size(0), vec2.size(0)};
  TORCH_CHECK(at::is_expandable_to(self.sizes(), sizes), "addr: self of shape ", self.sizes(),
              " does not broadcast to ", sizes);
  build(at::TensorIteratorConfig()
            .add_output(maybe_get_output())
            .add_const_input(self)
            .add_owned_const_input(vec1.reshape({vec1.size(0), 1}))
            .add_const_input(vec2)
            .allow_cpu_scalars(true)
            .promote_inputs_to_common_dtype(true)
            .cast_common_dtype_to_outputs(true)
            .enforce_safe_casting_to_output(true));
}

void Cdist::meta(const at::Tensor& x1, const at::Tensor& x2, double p) {
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  meta(x1, x2);
}

void Cdist::meta(const at::Tensor& x1, const at::Tensor& x2) {
  c10::DimVector sizes = at::infer_size_dimvector(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x2.size(-2));
  set_output_raw_strided(0, sizes, {}, x1.options());
}

void MinMax::meta(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0,
              "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.");
  set_output_raw_strided(0, {}, {}, self.options());
  set_output_raw_strided(1, {}, {}, self.options());
}

void Addbmm::meta(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2) {
  TORCH_CHECK(batch1.dim() == 3 && batch2.dim() == 3, "batch1 and batch2 must be 3D tensors");
  TORCH_CHECK(batch1.size(0) == batch2.size(0), "batch1 and batch2 must have same number of batches, got ",
              batch1.size(0), " and ", batch2.size(0));
  TORCH_CHECK(batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (", batch1.size(1), "x",
              batch1.size(2), " and ", batch2.size(1), "x", batch2.size(2), ")");
  const c10::DimVector sizes{batch1.size(1), batch2.size(2)};
  TORCH_CHECK(at::is_expandable_to(self.sizes(), sizes), "addbmm: self of shape ", self.sizes(),
              " does not broadcast to ", sizes);
  set_output_raw_strided(0, sizes, {}, self.options());
}

void MaxPool3d::meta(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                     at::IntArrayRef dilation, bool ceil_mode) {
  const auto at_axis = [](at::IntArrayRef values, int64_t i) { return values.size() == 1 ? values[0] : values[i]; };
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "max_pool3d: expected a 4D or 5D input, got ", self.sizes());
  for (int64_t i = self.dim() - 4; i < self.dim(); ++i) {
    TORCH_CHECK(self.size(i) > 0,
                "max_pool3d: Expected input's non-batch dimensions to have positive length, but input ",
                "has a shape of ", self.sizes(), " and non-batch dimension ", self.size(i), " has length zero!");
  }
  c10::DimVector sizes(self.sizes());
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t k = at_axis(kernel, i), s = at_axis(stride, i), p = at_axis(padding, i), d = at_axis(dilation, i);
    TORCH_CHECK(d > 0, "max_pool3d: dilation should be greater than zero, but got ", dilation);
    int64_t& size = sizes[self.dim() - 3 + i];
    size = at::native::pooling_output_shape(size, k, p, s, d, ceil_mode);
    TORCH_CHECK(size >= 1, "max_pool3d: the output of input ", self.sizes(), " with kernel ", kernel,
                " would be empty");
  }
  // Without a batch, channels_last of four dimensions says nothing of the volume's.
  const auto format = self.dim() == 5 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
  set_output_raw_strided(0, sizes, {}, self.options().memory_format(format));
  set_output_raw_strided(1, sizes, {}, self.options().dtype(at::kLong).memory_format(format));
}

namespace {

// A stand-in of type int64 without memory, for an int32 target.
at::Tensor wide(const at::Tensor& target) {
  if (target.scalar_type() != at::kInt) return target;
  return at::empty(target.sizes(), at::TensorOptions(at::kMeta).dtype(at::kLong));
}

}  // namespace

void NllLoss::meta(const at::Tensor& self, const at::Tensor& target, at::OptionalTensorRef weight, int64_t reduction,
                   int64_t ignore_index) {
  at::meta::structured_nll_loss_forward::meta(self, wide(target), weight, reduction, ignore_index);
}

void NllLossBackward::meta(const at::Tensor& grad_output, const at::Tensor& self, const at::Tensor& target,
                           at::OptionalTensorRef weight, int64_t reduction, int64_t ignore_index,
                           const at::Tensor& total_weight) {
  at::meta::structured_nll_loss_backward::meta(grad_output, self, wide(target), weight, reduction, ignore_index,
                                               total_weight);
}

}  // namespace npu::meta
