// Random operators. Element i of the output, in logical order, is computed from block i/2 of Philox(seed, offset) and
// nothing else (two 64-bit draws a block), whatever its type, its strides or the number of threads; draw.h says how it is rounded.
#include <ATen/ops/argsort.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/topk.h>

#include <algorithm>

#include "softnpu/ops/draw.h"

namespace softnpu::ops::kernels {

void uniform(Tensor& self, double from, double to, int64_t seed, int64_t offset) {
  put_draws(self, seed, offset, [=](int64_t, Draw d, auto tag) {
    using T = decltype(tag);
    const double value = from + (to - from) * d.unit();
    T drawn = floor_to<T>(value);
    if constexpr (!std::is_integral_v<T>) {
      // fp64 itself may round up to `to`; and a bound that the type lacks may have no number between itself and `value`.
      const auto number = [](T t) { return static_cast<double>(t); };
      if (number(drawn) >= to && from < to) drawn = below(drawn);
      if (number(drawn) < from) drawn = number(above(drawn)) < to ? above(drawn) : static_cast<T>(from);
    }
    return drawn;
  });
}

namespace {

// Box and Muller's, one number a draw. In double precision `low` gives the radius no bits that would make the angle depend on it.
double standard_normal(Draw d) {
  constexpr double kTau = 6.283185307179586;
  const double u = to_double(d.high, d.low & 0xffff0000u), angle = kTau * to_float(d.low << 8);
  return std::sqrt(-2 * std::log1p(-u)) * std::cos(angle);
}

// n numbers in single precision.
Tensor standard_normals(int64_t n, int64_t seed, int64_t offset) {
  constexpr auto kTau = 6.2831853f;
  Tensor radius = at::empty({n}, at::TensorOptions().dtype(at::kFloat)), angle = at::empty_like(radius);
  auto *r = radius.mutable_data_ptr<float>(), *a = angle.mutable_data_ptr<float>();
  each_draw(n, seed, offset, [=](int64_t i, Draw d) {
    r[i] = -to_float(d.high);
    a[i] = kTau * to_float(d.low);
  });
  return radius.log1p_().mul_(-2).sqrt_().mul_(angle.cos_());
}

}  // namespace

void normal(Tensor& self, double mean, double std, int64_t seed, int64_t offset) {
  if (self.scalar_type() != at::kDouble) {
    put(self, standard_normals(self.numel(), seed, offset).mul_(std).add_(mean).view(self.sizes()));
    return;
  }
  put_draws(self, seed, offset, [=](int64_t, Draw d, auto) { return mean + std * standard_normal(d); });
}

void normal(Tensor& self, const Tensor& mean, const Tensor& std, int64_t seed, int64_t offset) {
  Tensor drawn = at::empty(self.sizes(), self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  normal(drawn, 0, 1, seed, offset);
  put(self, drawn.mul_(std).add_(mean));
}

void exponential(Tensor& self, double lambda, int64_t seed, int64_t offset) {
  // Never zero, in any type: its logarithm and its inverse are taken.
  put_draws(self, seed, offset, [=](int64_t, Draw d, auto tag) {
    using T = decltype(tag);
    const auto drawn = static_cast<T>(-std::log1p(-std::max(d.unit(), 0x1p-54)) / lambda);
    return drawn == T(0) ? smallest<T>() : drawn;
  });
}

void bernoulli(Tensor& self, double probability, int64_t seed, int64_t offset) {
  put_draws(self, seed, offset,
            [=](int64_t, Draw d, auto tag) { return static_cast<decltype(tag)>(d.unit() < probability); });
}

void bernoulli(Tensor& self, const Tensor& probability, int64_t seed, int64_t offset) {
  const Tensor p = wide(probability.expand(self.sizes())).contiguous();
  AT_DISPATCH_FLOATING_TYPES(p.scalar_type(), "bernoulli", [&] {
    const auto* from = p.const_data_ptr<scalar_t>();
    const bool all = std::all_of(from, from + p.numel(), [](scalar_t value) { return value >= 0 && value <= 1; });
    TORCH_CHECK(all, "bernoulli expects all probabilities to be in [0, 1]");
    put_draws(self, seed, offset, [=](int64_t i, Draw d, auto tag) {
      return static_cast<decltype(tag)>(d.unit() < static_cast<double>(from[i]));
    });
  });
}

int64_t most_integer(at::ScalarType type) {
  // One more than the largest: Tensor.random_() without bounds (floats: what their mantissa holds exactly).
  switch (type) {
    case at::kBool:
      return 2;
    case at::kByte:
      return 256;
    case at::kChar:
      return 128;
    case at::kShort:
      return 32768;
    case at::kInt:
      return int64_t{1} << 31;
    case at::kUInt16:
      return 65536;
    case at::kUInt32:
      return int64_t{1} << 32;
    case at::kHalf:
      return (1 << 11) + 1;
    case at::kBFloat16:
      return (1 << 8) + 1;
    case at::kFloat:
      return (1 << 24) + 1;
    case at::kDouble:
      return (int64_t{1} << 53) + 1;
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

namespace {

// The signed type of as many bits: integers are drawn modulo their type's range, so that the bits are the same.
at::ScalarType signed_type(at::ScalarType type) {
  switch (type) {
    case at::kUInt16:
      return at::kShort;
    case at::kUInt32:
      return at::kInt;
    case at::kUInt64:
      return at::kLong;
    default:
      return type;
  }
}

}  // namespace

void integers(Tensor& out, int64_t from, int64_t to, int64_t seed, int64_t offset) {
  TORCH_CHECK(from < to, "random: from ", from, " must be below to ", to);
  if (out.is_complex()) {  // numbers without an imaginary part
    Tensor real = at::empty(out.sizes(), out.options().dtype(c10::toRealValueType(out.scalar_type())));
    integers(real, from, to, seed, offset);
    return put(out, real);
  }
  const at::ScalarType type = signed_type(out.scalar_type());
  Tensor self = type == out.scalar_type() ? out : out.view(type);
  const uint64_t range = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  put_draws(self, seed, offset, [=](int64_t, Draw d, auto tag) {
    // 64 bits times the range, the upper half: numbers differ in probability by 2^-64 of the range, where a remainder of 32
    // bits made some of them twice as likely.
    const auto drawn = static_cast<uint64_t>(((static_cast<unsigned __int128>(d.high) << 32 | d.low) * range) >> 64);
    return floor_to<decltype(tag)>(static_cast<int64_t>(drawn + static_cast<uint64_t>(from)));
  });
}

void randperm(int64_t n, int64_t seed, int64_t offset, Tensor& out) {
  // Sorting by distinct keys: 64 random bits make a tie practically impossible, and the stable sort settles one.
  TORCH_CHECK(n == out.numel(), "randperm: ", n, " numbers for an output of ", out.numel());
  Tensor keys = at::empty({n}, at::TensorOptions().dtype(at::kLong));
  auto* key = keys.mutable_data_ptr<int64_t>();
  each_draw(n, seed, offset, [&](int64_t i, Draw d) { key[i] = static_cast<int64_t>(uint64_t{d.high} << 32 | d.low); });
  put(out, at::argsort(keys, /*stable=*/true, 0, false));
}

void multinomial(const Tensor& self, int64_t samples, bool replacement, int64_t seed, int64_t offset, Tensor& out) {
  Tensor weights = self.dim() == 1 ? self.unsqueeze(0) : self;
  weights = weights.to(at::kDouble).contiguous();
  int64_t rows = weights.size(0), classes = weights.size(1);
  Tensor result;
  if (replacement) {
    Tensor sums = weights.cumsum(1);
    Tensor draws = at::empty({rows, samples}, weights.options());
    uniform(draws, 0, 1, seed, offset);
    draws.mul_(sums.select(1, classes - 1).unsqueeze(1));
    result = at::searchsorted(sums, draws, false, true).clamp_max_(classes - 1);
  } else {
    // The smallest of exponential(w) draws: Efraimidis and Spirakis.
    Tensor keys = at::empty({rows, classes}, weights.options());
    exponential(keys, 1, seed, offset);
    keys.div_(weights).masked_fill_(weights == 0, std::numeric_limits<double>::infinity());
    result = std::get<1>(at::topk(keys, samples, 1, /*largest=*/false));
  }
  put(out, result);
}

}  // namespace softnpu::ops::kernels
