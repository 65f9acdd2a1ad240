// Random values. Every kernel takes (seed, offset) of a Philox stream, so results depend on neither threads nor streams; what
// CANN has no operator for (geometric, cauchy, log-normal) is computed on the device from uniform or normal values, in fp32 or
// fp64, and rounded to the tensor's type at the end: 16-bit uniform values are too few to be transformed.
// Long because it is a family: a function a distribution, and what they share.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/view_as_real_native.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/generator.h"
#include "csrc/core/graph.h"
#include "csrc/core/type_name.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/params.h"
#include "csrc/ops/storage.h"
#include "csrc/ops/structured.h"

namespace npu {
namespace {

using Generator = std::optional<at::Generator>;
namespace templates = at::native::templates;

PhiloxSlice slice_for(const at::Tensor& self, const Generator& generator) {
  return next_philox(generator, static_cast<uint64_t>(self.numel()));
}

PhiloxDraw draw_for(const at::Tensor& self, const Generator& generator) {
  return draw_philox(generator, static_cast<uint64_t>(self.numel()));
}

void check_floating(const at::Tensor& self, const char* name) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex(), name, " expects a floating-point tensor, got ",
              self.scalar_type());
}

// CANN takes these in single precision.
bool fits_float(double value) { return static_cast<double>(static_cast<float>(value)) == value; }

at::Tensor& normal_(at::Tensor& self, double mean, double std, Generator generator) {
  TORCH_CHECK(std >= 0.0, "normal expects std >= 0.0, but found std ", std);
  check_floating(self, "normal_");
  if (self.numel() == 0) return self;
  if (self.is_complex()) {  // pairs of reals, each with half the variance, and each with the mean, as on the CPU
    at::Tensor pairs = at::native::view_as_real(self);
    normal_(pairs, mean, std / std::sqrt(2.0), generator);
    return self;
  }
  if (self.scalar_type() == at::kDouble && !(fits_float(mean) && fits_float(std)))
    return normal_(self, 0, 1, std::move(generator)).mul_(std).add_(mean);
  const NPUGuard guard(self.device().index());
  const PhiloxDraw draw = draw_for(self, generator);
  if (const CapturedPhilox* in = draw.captured) {
    ACLNN(aclnnInplaceNormalTensor)(self, mean, std, in->seed, in->offset, draw.offset);
  } else {
    ACLNN(aclnnInplaceNormal)(self, mean, std, draw.seed, draw.offset);
  }
  return self;
}

// As many as `like` has, around zero.
at::Tensor normal_of(const at::Tensor& like, double std, Generator generator) {
  at::Tensor values = empty(like.sizes(), like.scalar_type());
  return normal_(values, 0, std, std::move(generator));
}

// ATen's templates check bounds, types and overlap as on the CPU, and call these.
void fill_uniform(const at::Tensor& self, double from, double to, const Generator& generator);
at::Tensor& random_between(at::Tensor& self, int64_t from, int64_t to, const Generator& generator);

template <class>
struct UniformKernel {
  void operator()(at::TensorIterator& iter, double from, double to, const Generator& generator) const {
    fill_uniform(iter.tensor(0), from, to, generator);
  }
};

template <class>
struct RandomKernel {
  // [from, from + range), where the last int64 is left out
  void operator()(at::TensorIterator& iter, uint64_t range, int64_t from, const Generator& generator) const {
    at::Tensor self = iter.tensor(0);
    const uint64_t most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - static_cast<uint64_t>(from);
    random_between(self, from, static_cast<int64_t>(static_cast<uint64_t>(from) + std::min(range, most)), generator);
  }
  void operator()(at::TensorIterator& iter, const Generator& generator) const {
    at::Tensor self = iter.tensor(0);
    random_between(self, std::numeric_limits<int64_t>::lowest(), std::numeric_limits<int64_t>::max(), generator);
  }
};

at::Tensor& uniform_(at::Tensor& self, double from, double to, Generator generator) {
  const NPUGuard guard(self.device().index());
  return templates::uniform_impl_<UniformKernel, void>(self, from, to, std::move(generator));
}

void fill_uniform(const at::Tensor& self, double from, double to, const Generator& generator) {
  const PhiloxDraw draw = draw_for(self, generator);
  const auto offset = static_cast<uint64_t>(draw.offset);
  if (const CapturedPhilox* in = draw.captured) {
    ACLNN(aclnnInplaceUniformTensor)(self, from, to, in->seed, in->offset, offset);
  } else {
    ACLNN(aclnnInplaceUniform)(self, from, to, static_cast<uint64_t>(draw.seed), offset);
  }
}

// CANN's Bernoulli takes no seed from memory.
template <class P>
at::Tensor& bernoulli_captured(at::Tensor& self, const P& p, Generator generator) {
  at::Tensor values = empty(self.sizes(), at::kFloat);
  return self.copy_(uniform_(values, 0, 1, std::move(generator)).lt(p));
}

at::Tensor& bernoulli_float(at::Tensor& self, double p, Generator generator) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  if (self.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  if (capturing_graph()) return bernoulli_captured(self, p, std::move(generator));
  const PhiloxSlice slice = slice_for(self, generator);
  ACLNN(aclnnInplaceBernoulli)(self, at::Scalar(p), slice.seed, slice.offset);
  return self;
}

at::Tensor& bernoulli_tensor(at::Tensor& self, const at::Tensor& p, Generator generator) {
  TORCH_CHECK(p.is_floating_point(), "bernoulli_ expects floating-point probabilities, got ", p.scalar_type());
  if (self.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  if (capturing_graph()) return bernoulli_captured(self, p.to(self.device()), std::move(generator));
  const PhiloxSlice slice = slice_for(self, generator);
  ACLNN(aclnnInplaceBernoulliTensor)(self, p.to(self.device()).expand(self.sizes()), slice.seed, slice.offset);
  return self;
}

at::Tensor& bernoulli_out(const at::Tensor& self, Generator generator, at::Tensor& out) {
  resize_out(out, self.sizes());
  return bernoulli_tensor(out, self, generator);
}

// The largest integer (exclusive) a dtype holds exactly, for random_() without bounds.
int64_t exact_end(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return (int64_t{1} << 53) + 1;
    case at::kFloat:
      return (int64_t{1} << 24) + 1;
    case at::kHalf:
      return (int64_t{1} << 11) + 1;
    case at::kBFloat16:
      return (int64_t{1} << 8) + 1;
    case at::kBool:
      return 2;
    case at::kByte:
      return 256;
    case at::kChar:
      return 128;
    case at::kShort:
      return 32768;
    case at::kUInt16:
      return 65536;
    case at::kUInt32:
      return int64_t{1} << 32;
    case at::kInt:
      return int64_t{1} << 31;
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

at::Tensor& random_between(at::Tensor& self, int64_t from, int64_t to, const Generator& generator) {
  TORCH_CHECK(from < to, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", to);
  TORCH_CHECK(!self.is_complex(), "random_ is not implemented for ", type_name(self));
  if (self.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  const PhiloxDraw draw = draw_for(self, generator);
  if (const CapturedPhilox* in = draw.captured) {
    ACLNN(aclnnInplaceRandomTensor)(self, from, to, in->seed, in->offset, draw.offset);
  } else {
    ACLNN(aclnnInplaceRandom)(self, from, to, draw.seed, draw.offset);
  }
  return self;
}

at::Tensor& random_from(at::Tensor& self, int64_t from, std::optional<int64_t> to, Generator generator) {
  const NPUGuard guard(self.device().index());
  return templates::random_from_to_impl<RandomKernel, void>(self, from, to, std::move(generator));
}

at::Tensor& random_to(at::Tensor& self, int64_t to, Generator generator) {
  return random_from(self, 0, to, std::move(generator));
}

at::Tensor& random_(at::Tensor& self, Generator generator) {
  return random_between(self, 0, exact_end(self.scalar_type()), generator);
}

// Values of the type a distribution is computed in: fp64 for fp64 and int64, else fp32. They are drawn as `draw` says.
template <class Draw>
at::Tensor& draw_wide(at::Tensor& self, const Draw& draw) {
  if (self.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  const at::ScalarType type = self.scalar_type();
  if (type == at::kFloat || type == at::kDouble) return draw(self);
  at::Tensor values = empty(self.sizes(), type == at::kLong ? at::kDouble : at::kFloat);
  return self.copy_(draw(values));
}

// Never zero: its logarithm and its inverse are taken.
at::Tensor& exponential_(at::Tensor& self, double lambda, Generator generator) {
  TORCH_CHECK(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
  check_floating(self, "exponential_");
  TORCH_CHECK(!self.is_complex(), "exponential_ is not implemented for ", type_name(self));
  if (self.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  if (self.scalar_type() == at::kDouble) {  // CANN's operator draws 24 bits
    return uniform_(self, 0, 1, std::move(generator))
        .neg_()
        .log1p_()
        .mul_(-1.0 / lambda)
        .clamp_min_(std::numeric_limits<double>::min());
  }
  const PhiloxDraw draw = draw_for(self, generator);
  if (const CapturedPhilox* in = draw.captured) {
    ACLNN(aclnnStatelessExponentialTensor)(self, in->seed, in->offset, draw.offset, lambda);
  } else {
    ACLNN(aclnnSimThreadExponential)(self, self.numel(), lambda, draw.seed, draw.offset);
  }
  return self;
}

at::Tensor& geometric_(at::Tensor& self, double p, Generator generator) {
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  TORCH_CHECK(!self.is_complex(), "geometric_ is not implemented for ", type_name(self));
  return draw_wide(self, [&](at::Tensor& values) -> at::Tensor& {
    return uniform_(values, 0, 1, generator).neg_().log1p_().div_(std::log1p(-p)).ceil_().clamp_min_(1);
  });
}

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, Generator generator) {
  TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  check_floating(self, "cauchy_");
  constexpr double kPi = 3.14159265358979323846;
  return draw_wide(self, [&](at::Tensor& values) -> at::Tensor& {
    return uniform_(values, -kPi / 2, kPi / 2, generator).tan_().mul_(sigma).add_(median);
  });
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, Generator generator) {
  TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  check_floating(self, "log_normal_");
  return draw_wide(self,
                   [&](at::Tensor& values) -> at::Tensor& { return normal_(values, mean, std, generator).exp_(); });
}

void check_normal(const at::Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(out.is_floating_point() || out.is_complex(), "normal: the output is of type ",
                              out.scalar_type(),
                              ", which has no normal distribution; it must be a floating-point tensor");
}

at::Tensor& normal_tensor_tensor_out(const at::Tensor& mean, const at::Tensor& std, Generator generator,
                                     at::Tensor& out) {
  const NPUGuard guard(first_device(mean, std, out));
  CHECK_NORMAL_TENSOR_STD(std);
  check_normal(out);
  resize_out(out, at::infer_size_dimvector(mean.sizes(), std.sizes()));
  if (out.numel() == 0) return out;
  if (out.is_complex()) return out.copy_(normal_of(out, 1, generator).mul_(std).add_(mean));
  const PhiloxSlice slice = slice_for(out, generator);
  ACLNN(aclnnNormalTensorTensor)(mean.expand(out.sizes()), std.expand(out.sizes()), slice.seed, slice.offset, out);
  return out;
}

at::Tensor normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std, Generator generator) {
  const NPUGuard guard(first_device(mean, std));
  at::Tensor out = mean.sizes() == std.sizes()
                       ? npu::empty_like(mean)
                       : empty(at::infer_size_dimvector(mean.sizes(), std.sizes()), mean.scalar_type());
  return normal_tensor_tensor_out(mean, std, std::move(generator), out);
}

at::Tensor& normal_tensor_float_out(const at::Tensor& mean, double std, Generator generator, at::Tensor& out) {
  TORCH_CHECK(std >= 0.0, "normal expects std >= 0.0, but found std ", std);
  const NPUGuard guard(mean.device().index());
  check_normal(out);
  // An output that mean broadcasts to keeps its shape, as on the CPU.
  resize_out(out, out.numel() ? at::infer_size_dimvector(mean.sizes(), out.sizes()) : c10::DimVector(mean.sizes()));
  if (out.numel() == 0) return out;
  if (out.is_complex() || (out.scalar_type() == at::kDouble && !fits_float(std)))
    return out.copy_(normal_of(out, std, generator).add_(mean));
  const PhiloxSlice slice = slice_for(out, generator);
  ACLNN(aclnnNormalTensorFloat)(mean.expand(out.sizes()), std, slice.seed, slice.offset, out);
  return out;
}

at::Tensor normal_tensor_float(const at::Tensor& mean, double std, Generator generator) {
  const NPUGuard guard(mean.device().index());
  at::Tensor out = empty(mean.sizes(), mean.scalar_type());
  return normal_tensor_float_out(mean, std, std::move(generator), out);
}

at::Tensor& normal_float_tensor_out(double mean, const at::Tensor& std, Generator generator, at::Tensor& out) {
  const NPUGuard guard(std.device().index());
  CHECK_NORMAL_TENSOR_STD(std);
  check_normal(out);
  resize_out(out, std.sizes());
  if (out.numel() == 0) return out;
  if (out.is_complex() || (out.scalar_type() == at::kDouble && !fits_float(mean)))
    return out.copy_(normal_of(out, 1, generator).mul_(std).add_(mean));
  const PhiloxSlice slice = slice_for(out, generator);
  ACLNN(aclnnNormalFloatTensor)(mean, std, slice.seed, slice.offset, out);
  return out;
}

at::Tensor normal_float_tensor(double mean, const at::Tensor& std, Generator generator) {
  const NPUGuard guard(std.device().index());
  at::Tensor out = npu::empty_like(std);
  return normal_float_tensor_out(mean, std, std::move(generator), out);
}

// What the CPU says of weights from which nothing can be drawn, in its words for either algorithm. Waits for the stream once, as
// PyTorch does on every device: a kernel's error would come too late to name the line.
void check_weights(const at::Tensor& self, bool one_by_one) {
  if (is_capturing(current_stream())) return;
  const at::Tensor found = at::stack({self.min(), self.max(), self.sum(-1).min()}).to(at::kDouble).cpu();
  const double *least = found.const_data_ptr<double>(), *most = least + 1, *total = least + 2;
  const bool positive = *least >= 0, finite = *most < std::numeric_limits<double>::infinity();
  TORCH_CHECK(one_by_one || (positive && finite), "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(positive, "invalid multinomial distribution (encountering probability entry < 0)");
  TORCH_CHECK(finite, "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
  TORCH_CHECK(*total > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
}

at::Tensor& multinomial_out(const at::Tensor& self, int64_t num_samples, bool replacement, Generator generator,
                            at::Tensor& out) {
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(self.is_floating_point(),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(out.scalar_type() == at::kLong, "multinomial expects Long tensor out, got: ", out.scalar_type());
  TORCH_CHECK(self.size(-1) <= (int64_t{1} << 24), "number of categories cannot exceed 2^24");
  TORCH_CHECK(num_samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || num_samples <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  const NPUGuard guard(self.device().index());
  c10::DimVector sizes(self.sizes());
  sizes.back() = num_samples;
  resize_out(out, sizes);
  if (out.numel() == 0) return out;
  check_weights(self, replacement && num_samples > 1);
  const PhiloxDraw draw = draw_philox(generator, static_cast<uint64_t>(std::max(self.numel(), out.numel())));
  if (const CapturedPhilox* in = draw.captured) {
    ACLNN(aclnnMultinomialTensor)(self, num_samples, replacement, in->seed, in->offset, draw.offset, out);
  } else {
    ACLNN(aclnnMultinomial)(self, num_samples, replacement, draw.seed, draw.offset, out);
  }
  return out;
}

at::Tensor multinomial(const at::Tensor& self, int64_t num_samples, bool replacement, Generator generator) {
  const NPUGuard guard(self.device().index());
  at::Tensor out = empty({0}, at::kLong);
  return multinomial_out(self, num_samples, replacement, std::move(generator), out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("normal_", TORCH_FN(normal_));
  m.impl("normal.Tensor_Tensor", NPU_FN(normal_tensor_tensor));
  m.impl("normal.Tensor_Tensor_out", NPU_FN(normal_tensor_tensor_out));
  m.impl("normal.Tensor_float", TORCH_FN(normal_tensor_float));
  m.impl("normal.Tensor_float_out", NPU_FN(normal_tensor_float_out));
  m.impl("normal.float_Tensor", TORCH_FN(normal_float_tensor));
  m.impl("normal.float_Tensor_out", NPU_FN(normal_float_tensor_out));
  m.impl("uniform_", TORCH_FN(uniform_));
  m.impl("bernoulli_.float", TORCH_FN(bernoulli_float));
  m.impl("bernoulli_.Tensor", TORCH_FN(bernoulli_tensor));
  m.impl("bernoulli.out", TORCH_FN(bernoulli_out));
  m.impl("random_.from", TORCH_FN(random_from));
  m.impl("random_.to", TORCH_FN(random_to));
  m.impl("random_", TORCH_FN(random_));
  m.impl("exponential_", TORCH_FN(exponential_));
  m.impl("geometric_", TORCH_FN(geometric_));
  m.impl("cauchy_", TORCH_FN(cauchy_));
  m.impl("log_normal_", TORCH_FN(log_normal_));
  m.impl("multinomial", TORCH_FN(multinomial));
  m.impl("multinomial.out", NPU_FN(multinomial_out));
}

}  // namespace npu
