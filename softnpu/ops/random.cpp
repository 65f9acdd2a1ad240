// Random operators. Element i of the output, in logical order, is computed from block i/2 of Philox(seed, offset) and
// nothing else (two 64-bit draws a block), whatever its type, its strides or the number of threads.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/topk.h>

#include <cmath>
#include <limits>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/philox.h"

namespace softnpu::ops::kernels {

namespace {

constexpr int64_t kGrain = 4096;  // elements a thread takes at least

struct Draw {
  uint32_t high, low;
};

// Calls body(i, draw) for every logical element.
template <class Body>
void each_draw(int64_t n, uint64_t seed, uint64_t offset, const Body& body) {
  Philox philox(seed, offset);
  at::parallel_for(0, (n + 1) / 2, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; block++) {
      auto r = philox(static_cast<uint64_t>(block));
      body(2 * block, Draw{r[0], r[1]});
      if (2 * block + 1 < n) body(2 * block + 1, Draw{r[2], r[3]});
    }
  });
}

// A contiguous buffer for `self`'s values: itself, or one that write_back copies.
Tensor buffer(const Tensor& self) { return self.is_contiguous() ? self : at::empty(self.sizes(), self.options()); }
void write_back(Tensor& self, const Tensor& values) {
  if (!values.is_same(self)) put(self, values);
}

template <class Make>  // Make: Draw -> double
void fill_floating(Tensor& self, int64_t seed, int64_t offset, const Make& make) {
  Tensor values = buffer(self);
  AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, values.scalar_type(), "random", [&] {
    auto* out = values.mutable_data_ptr<scalar_t>();
    each_draw(values.numel(), seed, offset, [&](int64_t i, Draw d) { out[i] = static_cast<scalar_t>(make(d)); });
  });
  write_back(self, values);
}

}  // namespace

void uniform(Tensor& self, double from, double to, int64_t seed, int64_t offset) {
  if (self.scalar_type() == at::kDouble) {
    return fill_floating(self, seed, offset, [=](Draw d) { return from + (to - from) * to_double(d.high, d.low); });
  }
  // A type with fewer bits may round a number below `to` up to it: the interval is half open, so draw with its own bits.
  int bits = self.scalar_type() == at::kHalf ? 11 : self.scalar_type() == at::kBFloat16 ? 8 : 24;
  float unit = std::ldexp(1.0f, -bits);
  fill_floating(self, seed, offset, [=](Draw d) {
    return static_cast<double>(static_cast<float>(from) +
                               static_cast<float>(to - from) * (static_cast<float>(d.high >> (32 - bits)) * unit));
  });
}

void normal(Tensor& self, double mean, double std, int64_t seed, int64_t offset) {
  constexpr double kTau = 6.283185307179586;
  if (self.scalar_type() == at::kDouble) {
    return fill_floating(self, seed, offset, [=](Draw d) {
      double u = to_double(d.high, d.low & 0xffff0000u), angle = kTau * to_float(d.low << 8);
      return mean + std * std::sqrt(-2 * std::log1p(-u)) * std::cos(angle);
    });
  }
  fill_floating(self, seed, offset, [=](Draw d) {
    float radius = std::sqrt(-2.0f * std::log1p(-to_float(d.high)));
    return mean + std * static_cast<double>(radius * std::cos(static_cast<float>(kTau) * to_float(d.low)));
  });
}

void exponential(Tensor& self, double lambda, int64_t seed, int64_t offset) {
  // Never zero: its logarithm and its inverse are taken.
  fill_floating(self, seed, offset,
                [=](Draw d) { return -std::log1p(-(to_double(d.high, d.low) + 0x1p-54)) / lambda; });
}

void bernoulli(Tensor& self, double probability, int64_t seed, int64_t offset) {
  fill_floating(self, seed, offset,
                [=](Draw d) { return to_float(d.high) < static_cast<float>(probability) ? 1.0 : 0.0; });
}

void bernoulli(Tensor& self, const Tensor& probability, int64_t seed, int64_t offset) {
  Tensor p = probability.expand(self.sizes()).to(at::kFloat).contiguous();
  const float* from = p.const_data_ptr<float>();
  Tensor values = buffer(self);
  AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, values.scalar_type(), "bernoulli", [&] {
    auto* out = values.mutable_data_ptr<scalar_t>();
    each_draw(values.numel(), seed, offset,
              [&](int64_t i, Draw d) { out[i] = static_cast<scalar_t>(to_float(d.high) < from[i]); });
  });
  write_back(self, values);
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

void integers(Tensor& self, int64_t from, int64_t to, int64_t seed, int64_t offset) {
  TORCH_CHECK(from < to, "random: from ", from, " must be below to ", to);
  uint64_t range = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  Tensor values = buffer(self);
  AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, values.scalar_type(), "random", [&] {
    auto* out = values.mutable_data_ptr<scalar_t>();
    each_draw(values.numel(), seed, offset, [&](int64_t i, Draw d) {
      uint64_t draw = range <= (uint64_t{1} << 32) ? d.high : (uint64_t{d.high} << 32 | d.low);
      out[i] = static_cast<scalar_t>(static_cast<int64_t>(draw % range + static_cast<uint64_t>(from)));
    });
  });
  write_back(self, values);
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

// The mask is one bit an element (least significant first) where the buffer is bits, else one byte or bool an element.
namespace {

bool is_bits(const Tensor& mask, int64_t n) { return mask.scalar_type() == at::kByte && mask.numel() < n; }
bool is_kept(const uint8_t* mask, bool bits, int64_t i) { return bits ? (mask[i >> 3] >> (i & 7)) & 1 : mask[i] != 0; }

}  // namespace

void dropout_mask(IntArrayRef shape, double probability, int64_t seed, int64_t offset, Tensor& out) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  bool bits = out.scalar_type() == at::kByte && (out.numel() < n || out.numel() == (n + 127) / 128 * 16);
  TORCH_CHECK(out.is_contiguous() && out.element_size() == 1 && out.numel() * (bits ? 8 : 1) >= n,
              "the mask's buffer is too small");
  auto* mask = static_cast<uint8_t*>(out.mutable_data_ptr());
  auto keep = static_cast<float>(1 - probability);
  Philox philox(seed, offset);
  int64_t groups = (n + 7) / 8;  // a byte of mask has one owner
  at::parallel_for(0, groups, kGrain / 8, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; g++) {
      uint8_t byte = 0;
      for (int k = 0; k < 4; k++) {
        auto r = philox(static_cast<uint64_t>(4 * g + k));
        byte |= static_cast<uint8_t>((to_float(r[0]) < keep) << (2 * k) | (to_float(r[2]) < keep) << (2 * k + 1));
      }
      if (bits) {
        mask[g] = byte;
        continue;
      }
      for (int64_t i = 8 * g; i < std::min(n, 8 * g + 8); i++) mask[i] = (byte >> (i & 7)) & 1;
    }
  });
  if (bits) std::fill(mask + groups, mask + out.numel(), 0);
}

void dropout_apply(const Tensor& self, const Tensor& mask, double scale, Tensor& out) {
  int64_t n = self.numel();
  bool bits = is_bits(mask, n);
  Tensor from = self.contiguous(), flags = mask.contiguous(), values = buffer(out);
  TORCH_CHECK(flags.element_size() == 1, "dropout: the mask must be uint8 or bool");
  TORCH_CHECK(flags.numel() >= (bits ? (n + 7) / 8 : n), "dropout: a mask of ", flags.numel(), " elements for ", n);
  TORCH_CHECK(values.numel() == n, "dropout: an output of ", values.numel(), " elements for ", n);
  const auto* keep = static_cast<const uint8_t*>(flags.const_data_ptr());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, self.scalar_type(), "dropout", [&] {
    const auto* in = from.const_data_ptr<scalar_t>();
    auto* to = values.mutable_data_ptr<scalar_t>();
    auto factor = static_cast<at::opmath_type<scalar_t>>(scale);
    at::parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        to[i] = is_kept(keep, bits, i) ? static_cast<scalar_t>(static_cast<at::opmath_type<scalar_t>>(in[i]) * factor)
                                       : scalar_t(0);
      }
    });
  });
  write_back(out, values);
}

void dropout(const Tensor& self, double probability, bool train, int64_t seed, int64_t offset, Tensor& out,
             Tensor& mask) {
  dropout_mask(self.sizes(), train ? probability : 0, seed, offset, mask);
  dropout_apply(self, mask, train && probability < 1 ? 1 / (1 - probability) : train ? 0 : 1, out);
}

}  // namespace softnpu::ops::kernels
