// See compose.h.
#include "csrc/ops/npu/compose.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/log.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/xlogy.h>
#include <torch/library.h>

#include "csrc/cann/api.h"
#include "csrc/core/device.h"
#include "csrc/core/type_name.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"
#include "csrc/ops/params.h"

namespace npu::ops {

at::Tensor& copied(at::Tensor& out, const at::Tensor& value) {
  check_out(out, value);
  if (out.sym_sizes() != value.sym_sizes())
    out.resize__symint(value.sym_sizes());  // no trace takes a resize_ of symbols
  return out.copy_(value);
}

namespace {

// An operator of its own, so that a traced program holds it, not a conversion to Bits8.
at::Tensor convert_hifloat8(const at::Tensor& input, std::optional<at::ScalarType> type) {
  const at::Tensor from = type ? input.view(kHifloat8Codes) : input;
  const at::Tensor out = at::empty_like(from, from.options().dtype(type.value_or(kHifloat8Codes)));
  if (from.numel() > 0 && !from.is_meta()) {
    const NPUGuard guard(from.device().index());
    ACLNN(aclnnCast)(from, out.scalar_type(), out);
  }
  return type ? out : out.view(at::kByte);
}

TORCH_LIBRARY_FRAGMENT(npu, m) { m.def("_hifloat8_cast(Tensor input, ScalarType? dtype=None) -> Tensor"); }
TORCH_LIBRARY_IMPL(npu, CompositeExplicitAutograd, m) { m.impl("_hifloat8_cast", &convert_hifloat8); }

// Codes of numbers, or of codes numbers of that type.
at::Tensor converted(const at::Tensor& input, std::optional<at::ScalarType> type) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("npu::_hifloat8_cast", "")
                             .typed<at::Tensor(const at::Tensor&, std::optional<at::ScalarType>)>();
  return op.call(input, type);
}

}  // namespace

at::Tensor cast_to(const at::Tensor& input, int64_t dtype, const std::optional<int64_t>& input_dtype) {
  const bool codes = names_hifloat8(dtype);
  TORCH_CHECK_VALUE(codes || (dtype >= 0 && dtype < static_cast<int64_t>(at::ScalarType::NumOptions)), "dtype ", dtype,
                    " is not the number of a torch.dtype, and not torch_npu.hifloat8");
  const at::Tensor from = read_as(input, input_dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(!input.is_cpu() || !(codes || is_hifloat8(from)), "npu_dtype_cast: hifloat8 is of the ",
                              "npu alone, and input is on the CPU; move it with .npu()");
  const at::ScalarType type = codes ? kHifloat8Codes : static_cast<at::ScalarType>(dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(codes || type != kHifloat8Codes, "npu_dtype_cast: dtype ", dtype, ", torch.bits8, is ",
                              "not implemented; torch_npu.hifloat8 is");
  if (codes || is_hifloat8(from)) {
    if (codes && is_hifloat8(from)) return input.clone();
    return converted(input, codes ? std::nullopt : std::optional(type));
  }
  return from.to(type, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor sliced(const at::Tensor& input, at::IntArrayRef offsets, at::IntArrayRef sizes) {
  TORCH_CHECK(offsets.size() == sizes.size() && static_cast<int64_t>(sizes.size()) == input.dim(),
              "npu_slice: ", offsets.size(), " offsets and ", sizes.size(), " sizes for ", input.dim(), " dimensions");
  at::Tensor out = input;
  for (int64_t d = 0; d < input.dim(); ++d) {
    const c10::SymInt length = sizes[d] == -1 ? input.sym_size(d) - offsets[d] : c10::SymInt(sizes[d]);
    out = out.narrow_symint(d, offsets[d], length);
  }
  return out;
}

void check_reach(const char* op, const at::Tensor& input, at::IntArrayRef shape, at::IntArrayRef stride,
                 int64_t offset) {
  if (shape.size() != stride.size() || !input.has_storage()) return;  // as_strided says the first
  int64_t last = offset;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] <= 0 || stride[d] < 0) return;
    last += (shape[d] - 1) * stride[d];
  }
  const c10::SymInt held = input.storage().sym_nbytes() / static_cast<int64_t>(input.itemsize());
  TORCH_SYM_CHECK(held.sym_gt(last), op, ": shape ", shape, " and stride ", stride, " reach element ", last,
                  " from storage_offset ", offset, ", and the memory of input has ", held);
}

at::Tensor confusion_transpose(const at::Tensor& input, at::IntArrayRef perm, at::IntArrayRef shape,
                               bool transpose_first) {
  const at::Tensor out = transpose_first ? input.permute(perm).reshape(shape) : input.reshape(shape).permute(perm);
  return out.clone(at::MemoryFormat::Contiguous);
}

at::Tensor confusion_transpose_backward(const at::Tensor& grad, at::IntArrayRef perm, c10::SymIntArrayRef shape,
                                        bool transpose_first) {
  const auto count = static_cast<int64_t>(perm.size());
  std::vector<int64_t> back(count, -1);
  for (int64_t d = 0; d < count; ++d) {
    int64_t& place = back[at::maybe_wrap_dim(perm[d], count, /*wrap_scalar=*/false)];
    TORCH_CHECK(place < 0, "npu_confusion_transpose_backward: perm ", perm, " has a dimension twice");
    place = d;
  }
  TORCH_CHECK(!transpose_first || shape.size() == perm.size(), "npu_confusion_transpose_backward: perm has ", count,
              " dimensions, shape ", shape.size());
  if (!transpose_first) return grad.permute(back).reshape_symint(shape).clone(at::MemoryFormat::Contiguous);
  Sizes moved;
  for (int64_t d : perm) moved.push_back(shape[d < 0 ? d + count : d]);
  return grad.reshape_symint(moved).permute(back).clone(at::MemoryFormat::Contiguous);
}

std::vector<int64_t> reversed_pairs(at::IntArrayRef paddings) {
  TORCH_CHECK(paddings.size() % 2 == 0, "npu_pad: paddings are pairs, but there are ", paddings.size());
  std::vector<int64_t> out;
  for (size_t i = paddings.size(); i >= 2; i -= 2) out.insert(out.end(), {paddings[i - 2], paddings[i - 1]});
  return out;
}

at::Tensor one_hot(const at::Tensor& input, int64_t dim, int64_t depth, const at::Scalar& on, const at::Scalar& off) {
  const int64_t at = at::maybe_wrap_dim(dim, input.dim() + 1);
  TORCH_CHECK_VALUE(depth >= 0, "npu_one_hot: depth is ", depth, ", it must be at least 0");
  std::vector<int64_t> shape(input.dim() + 1, 1);
  shape[at] = depth;
  const at::Tensor classes = at::arange(depth, input.options().dtype(at::kLong)).reshape(shape);
  const auto options = input.options().dtype(at::kFloat);
  return at::where(input.unsqueeze(at).eq(classes), at::scalar_tensor(on, options), at::scalar_tensor(off, options));
}

at::Tensor repeat_interleave_backward(const at::Tensor& grad, const at::Tensor& input, const c10::SymInt& repeats,
                                      std::optional<int64_t> dim) {
  TORCH_SYM_CHECK(repeats.sym_gt(0), "repeat_interleave: the gradient of ", repeats,
                  " repeats; give a positive number");
  const int64_t at = dim ? wrap(input, *dim) : 0;
  TORCH_CHECK(grad.dim() > at, "repeat_interleave: a gradient of ", grad.dim(), " dimensions has no dimension ", at);
  Sizes split;
  for (int64_t d = 0; d < grad.dim(); ++d) {
    if (d != at) {
      split.push_back(grad.sym_size(d));
    } else {
      split.push_back(grad.sym_size(d) / repeats);
      split.push_back(repeats);
    }
  }
  return grad.reshape_symint(split).sum(at + 1).reshape_symint(input.sym_sizes());
}

void need_one_type(const at::Tensor& a, const at::Tensor& b, const OptionalTensor& c) {
  const auto converts = [](const at::Tensor& t) {  // what autocast does
    return t.scalar_type() == at::kFloat || t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16;
  };
  const bool autocast = !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastPrivateUse1);
  if (autocast && converts(a) && converts(b) && (!given(c) || converts(*c))) return;
  check_same_type({a, b});
  if (given(c)) check_same_type({a, *c});
}

at::Tensor multiplied(const at::Tensor& a, const at::Tensor& b) {
  need_one_type(a, b);
  return at::matmul(a, b);
}

at::Tensor bmm_v2(const at::Tensor& input, const at::Tensor& other, at::IntArrayRef sizes) {
  const at::Tensor out = multiplied(input, other);
  return sizes.empty() ? out : out.reshape(sizes);
}

namespace {
void check_image(const at::Tensor& input) {
  TORCH_CHECK(input.dim() > 2, "a convolution's input has batch, channels and at least one more dimension, not ",
              input.sym_sizes());
}

// Of one image.
c10::SymInt moved_over(const at::Tensor& input, const at::Tensor& weight, const Windows& of, int64_t d) {
  const auto number = [d](at::IntArrayRef list) { return list[list.size() == 1 ? 0 : static_cast<size_t>(d)]; };
  const c10::SymInt size = input.sym_size(d + 2), kernel = (weight.sym_size(d + 2) - 1) * number(of.dilation) + 1;
  if (of.transposed) {
    return (size - 1) * number(of.stride) - 2 * number(of.padding) + kernel + number(of.output_padding);
  }
  const c10::SymInt padded = size + 2 * number(of.padding);
  TORCH_SYM_CHECK(padded.sym_ge(kernel), "Kernel size can't be greater than actual input size: ", kernel, " over ",
                  padded, " in dimension ", d + 2);
  return (padded - kernel) / number(of.stride) + 1;
}
}  // namespace

void check_convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias, const Windows& of,
                       const OptionalTensor& grad) {
  const int64_t dims = weight.dim();
  TORCH_CHECK(dims > 2 && input.dim() == dims, "Expected ", dims, "-dimensional input for ", dims,
              "-dimensional weight ", weight.sym_sizes(), ", but got ", input.dim(), "-dimensional input of size ",
              input.sym_sizes(), " instead");
  need_one_type(input, weight, bias);
  TORCH_CHECK(of.groups > 0, "non-positive groups is not supported");
  struct Numbers {
    const char* name;
    at::IntArrayRef list;
    int64_t least;
  };
  std::vector<Numbers> numbers{{"stride", of.stride, 1}, {"padding", of.padding, 0}, {"dilation", of.dilation, 1}};
  if (of.transposed) numbers.push_back({"output_padding", of.output_padding, 0});
  for (const auto& [name, list, least] : numbers) {
    TORCH_CHECK(list.size() == 1 || static_cast<int64_t>(list.size()) == dims - 2, "expected ", name, " to be one or ",
                dims - 2, " numbers to match the convolution dimensions, but got ", list);
    for (int64_t number : list) TORCH_CHECK(number >= least, name, " should be at least ", least, ", but got ", list);
  }
  TORCH_SYM_CHECK(weight.sym_size(0).sym_ge(of.groups), "Given groups=", of.groups, ", expected weight to be at least ",
                  of.groups, " at dimension 0, but got weight of size ", weight.sym_sizes(), " instead");
  TORCH_SYM_CHECK((weight.sym_size(0) % of.groups).sym_eq(0), "Given groups=", of.groups,
                  ", expected weight to be divisible by ", of.groups, " at dimension 0, but got weight of size ",
                  weight.sym_sizes(), " instead");
  const c10::SymInt inner = of.transposed ? weight.sym_size(0) : weight.sym_size(1) * of.groups;
  TORCH_SYM_CHECK(input.sym_size(1).sym_eq(inner), "Given weight of size ", weight.sym_sizes(),
                  " and groups=", of.groups, ", expected input", input.sym_sizes(), " to have ", inner, " channels");
  const c10::SymInt channels = of.transposed ? weight.sym_size(1) * of.groups : weight.sym_size(0);
  if (given(bias)) {
    TORCH_CHECK(bias->dim() == 1 && TORCH_GUARD_OR_TRUE(bias->sym_size(0).sym_eq(channels)), "Given weight of size ",
                weight.sym_sizes(), ", expected bias to be 1-dimensional with ", channels,
                " elements, but got bias of size ", bias->sym_sizes(), " instead");
  }
  Sizes made{input.sym_size(0), channels};
  for (int64_t d = 0; d < dims - 2; ++d) {
    TORCH_SYM_CHECK(weight.sym_size(d + 2).sym_gt(0), "kernel size should be greater than zero, but got ",
                    weight.sym_sizes().slice(2));
    if (given(grad)) made.push_back(moved_over(input, weight, of, d));
    if (!of.transposed) continue;
    const auto number = [d](at::IntArrayRef list) { return list[list.size() == 1 ? 0 : static_cast<size_t>(d)]; };
    TORCH_SYM_CHECK(input.sym_numel().sym_eq(0).sym_or(
                        c10::SymBool(number(of.output_padding) < std::max(number(of.stride), number(of.dilation)))),
                    "output padding must be smaller than either stride or dilation, but got output_padding ",
                    of.output_padding, ", stride ", of.stride, " and dilation ", of.dilation);
  }
  if (!given(grad)) return;
  TORCH_SYM_CHECK(input.sym_numel().sym_gt(0).sym_or((input.sym_size(0) * input.sym_size(1)).sym_eq(0)),
                  "Only zero batch or zero channel inputs are supported, but got input shape: ", input.sym_sizes());
  check_same_type({input, *grad});
  need_sizes("convolution_backward", "grad_output", *grad, made);
}

void check_added_rows(const at::Tensor& input, const at::Tensor& index, const at::Tensor& source) {
  TORCH_CHECK(index.dim() <= 1, "index_add_(): Index is supposed to be a vector, but it has ", index.dim(),
              " dimensions");
  TORCH_SYM_CHECK(index.sym_numel().sym_eq(source.dim() ? source.sym_size(0) : c10::SymInt(1)),
                  "index_add_(): ", index.sym_numel(), " numbers in index for source of ", source.sym_sizes());
  TORCH_CHECK(input.scalar_type() == source.scalar_type(), "index_add_(): self (", input.scalar_type(),
              ") and source (", source.scalar_type(), ") must have the same scalar type");
  TORCH_CHECK(input.dim() == source.dim(), "index_add_(): source of ", source.sym_sizes(), " for self of ",
              input.sym_sizes());
  for (int64_t d = 1; d < input.dim(); ++d) {
    TORCH_SYM_CHECK(input.sym_size(d).sym_eq(source.sym_size(d)), "source tensor shape must match self tensor shape, ",
                    "excluding the specified dimension. Got self.shape = ", input.sym_sizes(),
                    " source.shape = ", source.sym_sizes());
  }
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups) {
  check_image(input);
  const std::vector<int64_t> none(input.dim() - 2, 0);
  check_convolution(input, weight, bias, {stride, padding, dilation, false, none, groups});
  return at::convolution(input, weight, bias, stride, padding, dilation, false, none, groups);
}

Triple convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                            at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                            at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask) {
  check_image(input);
  const std::vector<int64_t> none(input.dim() - 2, 0);
  check_convolution(input, weight, std::nullopt,
                    {stride, padding, dilation, transposed, transposed ? output_padding : none, groups}, grad);
  const c10::SymInt channels = transposed ? weight.sym_size(1) * groups : weight.sym_size(0);
  const Sizes bias{channels};
  const auto symbolic = [](at::IntArrayRef values) { return c10::fromIntArrayRefSlow(values); };
  return at::convolution_backward_symint(grad, input, weight, c10::SymIntArrayRef(bias), symbolic(stride),
                                         symbolic(padding), symbolic(dilation), transposed,
                                         symbolic(transposed ? output_padding : at::IntArrayRef(none)), groups, mask);
}

at::Tensor scaled_by_mean(const at::Tensor& grad, const at::Tensor& input, int64_t reduction) {
  return reduction == 1 ? grad / at::Scalar(input.sym_numel()) : grad;
}

at::Tensor kl_div_gradient(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& target, int64_t reduction,
                           bool log_target) {
  return scaled_by_mean(-grad * (log_target ? at::exp(target) : target).expand_as(input), input, reduction);
}

bool any_not_finite(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!at::isfinite(tensor).all().item<bool>()) return true;
  }
  return false;
}

at::Tensor int4_pack(const at::Tensor& weight) {
  TORCH_CHECK(
      weight.scalar_type() == at::kInt && weight.dim() > 0 && weight.size(-1) % 8 == 0,
      "npu_convert_weight_to_int4pack: an int32 tensor is expected whose last dimension is a multiple of 8, not ",
      type_name(weight), " of ", weight.sizes());
  std::vector<int64_t> shape = weight.sizes().vec();
  shape.back() /= 8;
  shape.push_back(8);
  const at::Tensor scale = at::pow(16, at::arange(8, weight.options().dtype(at::kLong)));
  const at::Tensor bits = (weight.reshape(shape).to(at::kLong).remainder(16) * scale).sum(-1);
  return at::where(bits.ge(int64_t{1} << 31), bits - (int64_t{1} << 32), bits).to(at::kInt);
}

Pair byte_mask_dropout(const at::Tensor& input, double p) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const at::Tensor mask = at::empty_like(input, input.options().dtype(at::kByte)).bernoulli_(1 - p);
  return {input * mask * (p < 1 ? 1 / (1 - p) : 0.0), mask};
}

Triple dropout_with_add_softmax(const at::Tensor& input, const at::Tensor& x1, const at::Scalar& alpha, double p,
                                int64_t dim) {
  const at::Tensor softmax = at::softmax(x1 + input * alpha, dim);
  const auto [out, mask] = byte_mask_dropout(softmax, p);
  return {mask, softmax, out};
}

Pair dropout_with_add_softmax_backward(const at::Tensor& grad, const at::Tensor& mask, const at::Tensor& softmax,
                                       const at::Scalar& alpha, double p, int64_t dim) {
  const at::Tensor through = grad * mask * (p < 1 ? 1 / (1 - p) : 0.0) * softmax;
  const at::Tensor sum = through - softmax * through.sum(dim, true);
  return {sum * alpha, sum};
}

std::tuple<at::Tensor, at::Tensor> batch_norm_of_sums(const BatchSums& sums, const at::Tensor& counts,
                                                      const std::optional<at::Tensor>& running_mean,
                                                      const std::optional<at::Tensor>& running_var, double momentum,
                                                      double eps) {
  const at::Tensor total = counts.sum(), mean = sums.sum.sum(0) / total;
  const at::Tensor var = sums.square_sum.sum(0) / total - mean * mean;
  if (running_mean && running_mean->defined()) running_mean->mul_(1 - momentum).add_(mean, momentum);
  if (running_var && running_var->defined()) {
    running_var->mul_(1 - momentum).add_(var * (total / (total - 1)), momentum);  // the sample's variance
  }
  return {mean, (var + eps).rsqrt()};
}

at::Tensor box_overlap(const at::Tensor& bboxes, const at::Tensor& gtboxes, int64_t mode) {
  TORCH_CHECK(bboxes.dim() == 2 && bboxes.size(1) == 4 && gtboxes.dim() == 2 && gtboxes.size(1) == 4,
              "bboxes and gtboxes must be [count, 4], they have the sizes ", bboxes.sizes(), " and ", gtboxes.sizes());
  const at::Tensor boxes = countable(bboxes), others = countable(gtboxes);
  const auto column = [](const at::Tensor& t, int64_t i, int64_t at) { return t.select(1, i).unsqueeze(at); };
  const auto side = [&](int64_t low) {
    const at::Tensor from = at::maximum(column(boxes, low, 0), column(others, low, 1));
    return (at::minimum(column(boxes, low + 2, 0), column(others, low + 2, 1)) - from).clamp_min(0);
  };
  const auto area = [](const at::Tensor& t) {
    return (t.select(1, 2) - t.select(1, 0)) * (t.select(1, 3) - t.select(1, 1));
  };
  const at::Tensor shared = side(0) * side(1), other = area(others).unsqueeze(1);
  // The vendor's plugin gives the function this much to add to what is divided by.
  return shared / ((mode == 1 ? other : area(boxes).unsqueeze(0) + other - shared) + 0.01);
}

}  // namespace npu::ops
