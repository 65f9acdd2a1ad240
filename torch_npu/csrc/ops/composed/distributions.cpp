// Gamma, Dirichlet, Poisson and binomial numbers. On the software NPU PyTorch's kernels of the CPU draw them as one task of the stream, from
// a generator seeded by all bits of the seed and the offset of the npu's (in a graph's capture by what lies in memory when it is
// replayed). A parameter that is none gives the same in both ways: NaN of Poisson and binomial numbers (PyTorch's CPU refuses the first and
// never ends with the second; a refusal would be a wait), the least number of gamma and Dirichlet, as the CPU's. Elsewhere they are
// composed: rejection with a fixed number of rounds, after which a number that no round has accepted (less than one in 10^15) is the
// last that was offered; small rates by adding up probabilities. Nothing is read back. Who calls it: PyTorch's dispatcher.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/_dirichlet_grad.h>
#include <ATen/ops/_sample_dirichlet.h>
#include <ATen/ops/_standard_gamma.h>
#include <ATen/ops/_standard_gamma_grad.h>
#include <ATen/ops/binomial.h>
#include <ATen/ops/poisson.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <random>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/core/generator.h"
#include "csrc/core/graph.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/processor.h"
#include "csrc/ops/device_check.h"

namespace npu {
namespace {

using Generator = std::optional<at::Generator>;
using Draw = at::Tensor (*)(const Tensors& parameters, const at::Generator& generator);

int64_t number_in(const at::Tensor& memory) { return memory.item<int64_t>(); }  // the processor's, in a task

// PyTorch's own takes 32 bits of a seed only: offsets that far apart would draw the same numbers.
at::Generator generator_of(int64_t seed, int64_t offset) {
  const auto low = [](int64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](int64_t x) { return static_cast<uint32_t>(static_cast<uint64_t>(x) >> 32); };
  std::seed_seq words{low(seed), high(seed), low(offset), high(offset)};
  at::mt19937 engine;
  at::mt19937_data_pod state = engine.data();
  words.generate(state.state_.begin(), state.state_.end());
  engine.set_data(state);
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  at::check_generator<at::CPUGeneratorImpl>(generator)->set_engine(engine);
  return generator;
}

at::Tensor on_processor(const char* name, const Tensors& parameters, const Generator& generator, Draw draw) {
  const at::Tensor& first = parameters[0];
  const at::Tensor out = empty_like(first);
  const PhiloxDraw slice = draw_philox(generator, static_cast<uint64_t>(first.numel()) * 4);
  Tensors ins = parameters;
  const bool captured = slice.captured != nullptr;
  if (captured) ins.insert(ins.end(), {slice.captured->seed, slice.captured->offset});
  const size_t count = parameters.size();
  run_on_processor(name, {out}, ins, [=](Tensors& outs, const Tensors& all) {
    const int64_t seed = captured ? number_in(all[count]) : slice.seed;
    const int64_t offset = slice.offset + (captured ? number_in(all[count + 1]) : 0);
    Tensors wide;
    for (size_t i = 0; i < count; ++i) wide.push_back(all[i].to(at::toOpMathType(all[i].scalar_type())));
    outs[0].copy_(draw(wide, generator_of(seed, offset)));
  });
  return out;
}

void check_floating(const at::Tensor& self, const char* kernel) {
  const bool is_taken = self.is_floating_point() && self.element_size() > 1;  // nobody draws floats of 8 bits
  TORCH_CHECK_NOT_IMPLEMENTED(is_taken, '"', kernel, "\" not implemented for '", self.scalar_type(), '\'');
}

void check_same_type(const at::Tensor& other, const at::Tensor& self) {
  TORCH_CHECK(other.scalar_type() == self.scalar_type(), "Found dtype ", other.scalar_type(), " but expected ",
              self.scalar_type());
}

at::Tensor uniform_like(const at::Tensor& x, const Generator& generator) {
  return at::Tensor(x.new_empty(x.sizes())).uniform_(0, 1, generator);
}

// Where a parameter is none, there is nothing to draw: no number comes out.
at::Tensor numbers_only(const at::Tensor& drawn, const at::Tensor& valid) {
  return drawn.masked_fill(valid.logical_not(), std::numeric_limits<double>::quiet_NaN());
}

// Keeps what an earlier round has accepted.
struct Rounds {
  at::Tensor value, done;
  void offer(const at::Tensor& other, const at::Tensor& accepted) {
    if (!value.defined()) {
      value = other;
      done = accepted;
      return;
    }
    value = where(done, value, other);
    done = done.logical_or(accepted);
  }
};

// By Marsaglia and Tsang, of numbers in double precision. Below one: that of one more, times a power of a uniform number.
at::Tensor gamma_of(const at::Tensor& alpha, const Generator& generator) {
  constexpr int kRounds = 14;  // each accepts 95 of 100 and more
  const at::Tensor small = alpha.lt(1), d = where(small, alpha.add(1), alpha).sub(1.0 / 3);
  const at::Tensor c = d.mul(9).rsqrt();
  Rounds rounds;
  for (int i = 0; i < kRounds; ++i) {
    const at::Tensor x = at::Tensor(alpha.new_empty(alpha.sizes())).normal_(0, 1, generator);
    const at::Tensor root = x.mul(c).add(1), v = root.mul(root).mul(root);
    const at::Tensor limit = x.square().mul(0.5).add(d.mul(v.log().sub(v).add(1)));
    rounds.offer(d.mul(v), root.gt(0).logical_and(uniform_like(alpha, generator).log().lt(limit)));
  }
  const at::Tensor power = uniform_like(alpha, generator).neg().add(1).pow(alpha.reciprocal());
  return where(alpha.gt(0), where(small, rounds.value.mul(power), rounds.value), 0.0);
}

constexpr int kTerms = 64;   // P(X > 64) < 1e-30 where the mean is below ten
constexpr int kRounds = 28;  // of the transformed rejection, which accepts 80 of 100 and more

// How many sums of probabilities a uniform number exceeds. next(p, k): the probability of k + 1.
template <class Next>
at::Tensor by_inversion(at::Tensor p, const Generator& generator, const Next& next) {
  const at::Tensor u = uniform_like(p, generator);
  at::Tensor sum = p, result = u.gt(sum).to(at::kDouble);
  for (int k = 0; k < kTerms; ++k) {
    p = next(p, k);
    sum = sum.add(p);
    result = result.add(u.gt(sum));
  }
  return result;
}

// Hoermann's transformed rejection: a, b and v_r are his; log_ratio(k): the logarithm of k's probability over what the proposal is
// scaled by.
template <class Ratio>
at::Tensor by_rejection(const at::Tensor& a, const at::Tensor& b, const at::Tensor& v_r, const at::Tensor& shift,
                        const at::Tensor& scale, const at::Tensor& most, const Generator& generator,
                        const Ratio& log_ratio) {
  Rounds rounds;
  for (int i = 0; i < kRounds; ++i) {
    const at::Tensor u = uniform_like(a, generator).sub(0.5), v = uniform_like(a, generator);
    const at::Tensor us = u.abs().neg().add(0.5);
    const at::Tensor k = a.mul(2).div(us).add(b).mul(u).add(shift).floor();
    const at::Tensor inside = k.ge(0).logical_and(k.le(most)), held = k.clamp_min(0).minimum(most);
    const at::Tensor near = us.ge(0.07).logical_and(v.le(v_r));
    const at::Tensor far = v.mul(scale).div(a.div(us.square()).add(b)).log().le(log_ratio(held));
    const at::Tensor tail = us.lt(0.013).logical_and(v.gt(us));
    rounds.offer(held, inside.logical_and(near.logical_or(far.logical_and(tail.logical_not()))));
  }
  return rounds.value;
}

at::Tensor is_rate(const at::Tensor& rate) { return rate.ge(0).logical_and(rate.isinf().logical_not()); }

// Whether there is nothing to count, whatever the other parameter is.
at::Tensor is_nothing(const at::Tensor& count, const at::Tensor& prob) { return count.le(0).logical_or(prob.le(0)); }

at::Tensor poisson_of(const at::Tensor& rate, const Generator& generator) {
  const at::Tensor small = rate.clamp_max(10), large = rate.clamp_min(10);
  const at::Tensor few =
      by_inversion(small.neg().exp(), generator, [&](const at::Tensor& p, int k) { return p.mul(small).div(k + 1); });
  const at::Tensor b = large.sqrt().mul(2.53).add(0.931), a = b.mul(0.02483).sub(0.059);
  const at::Tensor v_r = b.sub(2).reciprocal().mul(-3.6224).add(0.9277);
  const at::Tensor scale = b.sub(3.4).reciprocal().mul(1.1328).add(1.1239), log_rate = large.log();
  const at::Tensor none = at::Tensor(large.new_empty({})).fill_(std::numeric_limits<double>::infinity());
  const at::Tensor many = by_rejection(a, b, v_r, large.add(0.43), scale, none, generator, [&](const at::Tensor& k) {
    return k.mul(log_rate).sub(large).sub(k.add(1).lgamma());
  });
  return numbers_only(where(rate.ge(10), many, few), is_rate(rate));
}

at::Tensor binomial_of(const at::Tensor& count, const at::Tensor& prob, const Generator& generator) {
  const at::Tensor p = prob.clamp(0, 1), mirrored = p.gt(0.5), q = where(mirrored, p.neg().add(1), p);
  const at::Tensor n = count.clamp_min(0), is_large = n.mul(q).ge(10);
  const at::Tensor q_small = q.masked_fill(is_large, 0), odds = q_small.div(q_small.neg().add(1));
  const at::Tensor none = n.mul(q_small.neg().log1p()).exp();
  const at::Tensor few = by_inversion(none, generator, [&](const at::Tensor& term, int k) {
    return term.mul(n.sub(k)).mul(odds).div(k + 1).clamp_min(0);
  });
  const at::Tensor m = where(is_large, n, 100.0), r = where(is_large, q, 0.5), rest = r.neg().add(1);
  const at::Tensor deviation = m.mul(r).mul(rest).sqrt();
  const at::Tensor b = deviation.mul(2.53).add(1.15), a = b.mul(0.0248).sub(0.0873).add(r.mul(0.01));
  const at::Tensor v_r = b.reciprocal().mul(-4.2).add(0.92);
  const at::Tensor scale = b.reciprocal().mul(5.1).add(2.83).mul(deviation), log_odds = r.div(rest).log();
  const at::Tensor mode = m.add(1).mul(r).floor();
  const auto logs = [&](const at::Tensor& k) { return k.add(1).lgamma().add(m.sub(k).add(1).lgamma()); };
  const at::Tensor at_mode = logs(mode);
  const at::Tensor many = by_rejection(a, b, v_r, m.mul(r).add(0.5), scale, m, generator, [&](const at::Tensor& k) {
    return at_mode.sub(logs(k)).add(k.sub(mode).mul(log_odds));
  });
  const at::Tensor found = where(is_large, many, few).minimum(n);
  const at::Tensor valid = count.eq(count).logical_and(prob.eq(prob));
  return where(is_nothing(count, prob), 0.0, numbers_only(where(mirrored, n.sub(found), found), valid));
}

// The least normal number of the type, never zero: logarithms are taken.
double least_of(at::ScalarType type) {
  return type == at::kDouble ? std::numeric_limits<double>::min()
         : type == at::kHalf ? std::ldexp(1.0, -14)
                             : std::numeric_limits<float>::min();
}

at::Tensor at_least(const at::Tensor& x, double least) { return where(x.gt(least), x, least); }  // of NaN, too

// Gamma numbers have no other parameters.
at::Tensor positive(const at::Tensor& alpha) { return alpha.masked_fill(alpha.gt(0).logical_not(), 0); }

at::Tensor like(const at::Tensor& self, const at::Tensor& drawn) { return npu::empty_like(self).copy_(drawn); }

// The greatest share that is less than one, of the type that is computed in.
double most_of(at::ScalarType type) { return 1 - std::ldexp(1.0, type == at::kDouble ? -53 : -24); }

at::Tensor standard_gamma(const at::Tensor& self, Generator generator) {
  check_floating(self, "gamma_cpu");
  const NPUGuard guard(self.device().index());
  if (self.numel() == 0) return npu::empty_like(self);
  const double least = least_of(self.scalar_type());
  if (has_processor_kernels()) {
    const at::Tensor drawn =
        on_processor("_standard_gamma", {self}, generator,
                     [](const Tensors& in, const at::Generator& g) { return at::_standard_gamma(positive(in[0]), g); });
    return self.scalar_type() == at::kHalf ? drawn.clamp_min(least) : drawn;
  }
  return like(self, at_least(gamma_of(wide(self), generator), least));
}

at::Tensor sample_dirichlet(const at::Tensor& given, Generator generator) {
  check_floating(given, "dirichlet_cpu");
  const NPUGuard guard(given.device().index());
  const at::Tensor self = given.contiguous();  // the result, too, as the CPU's
  if (self.numel() == 0) return npu::empty_like(self);
  const double least = least_of(self.scalar_type());
  if (has_processor_kernels()) {
    const at::Tensor drawn = on_processor(
        "_sample_dirichlet", {self}, generator,
        [](const Tensors& in, const at::Generator& g) { return at::_sample_dirichlet(positive(in[0]), g); });
    return self.scalar_type() == at::kHalf ? drawn.clamp_min(least) : drawn;
  }
  const at::Tensor parts = gamma_of(wide(self), generator).clamp_min(std::numeric_limits<double>::min());
  return like(self, at_least(parts.div(parts.sum(-1, true)), least).clamp_max(most_of(self.scalar_type())));
}

at::Tensor poisson(const at::Tensor& self, Generator generator) {
  check_floating(self, "poisson_cpu");
  const NPUGuard guard(self.device().index());
  if (self.numel() == 0) return npu::empty_like(self);
  if (has_processor_kernels()) {
    return on_processor("poisson", {self}, generator, [](const Tensors& in, const at::Generator& g) {
      const at::Tensor valid = is_rate(in[0]);
      return numbers_only(at::poisson(in[0].masked_fill(valid.logical_not(), 0), g), valid);
    });
  }
  return like(self, poisson_of(wide(self), generator));
}

at::Tensor binomial(const at::Tensor& count, const at::Tensor& prob, Generator generator) {
  check_floating(count, "binomial_cpu");
  check_same_type(prob, count);
  const NPUGuard guard(count.device().index());
  const auto [wide_n, wide_p] = broadcast(count, prob);
  const at::Tensor n = wide_n.contiguous(), p = wide_p.contiguous();  // the result, too, as the CPU's
  if (n.numel() == 0) return npu::empty(n.sizes(), count.scalar_type());
  if (has_processor_kernels()) {
    return on_processor("binomial", {n, p}, generator, [](const Tensors& in, const at::Generator& g) {
      const at::Tensor none = in[0].isnan();
      const at::Tensor drawn = at::binomial(in[0].masked_fill(none, 0), in[1], g);
      return numbers_only(drawn, none.logical_not().logical_or(is_nothing(in[0], in[1])));
    });
  }
  return binomial_of(wide(n), wide(p), generator).to(count.scalar_type());
}

at::Tensor standard_gamma_grad(const at::Tensor& self, const at::Tensor& output) {
  const NPUGuard guard(self.device().index());
  check_floating(self, "_standard_gamma_grad_cpu");
  check_same_type(output, self);
  const auto [a, x] = broadcast(self, output);
  const at::Tensor out = npu::empty(a.sizes(), self.scalar_type());
  if (out.numel() == 0) return out;
  run_on_processor_or_copies("_standard_gamma_grad", {out}, {a, x}, [](Tensors& outs, const Tensors& in) {
    const at::ScalarType type = at::toOpMathType(in[0].scalar_type());
    outs[0].copy_(at::_standard_gamma_grad(in[0].to(type), in[1].to(type)));
  });
  return out;
}

at::Tensor dirichlet_grad(const at::Tensor& x, const at::Tensor& alpha, const at::Tensor& total) {
  const NPUGuard guard(x.device().index());
  check_floating(x, "_dirichlet_grad_cpu");
  check_same_type(alpha, x);
  check_same_type(total, x);
  const at::Tensor out = npu::empty(x.sizes(), x.scalar_type());
  if (out.numel() == 0) return out;
  run_on_processor_or_copies("_dirichlet_grad", {out}, {x, alpha.expand_as(x), total.expand_as(x)},
                             [](Tensors& outs, const Tensors& in) {
                               const at::ScalarType type = at::toOpMathType(in[0].scalar_type());
                               outs[0].copy_(at::_dirichlet_grad(in[0].to(type), in[1].to(type), in[2].to(type)));
                             });
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_standard_gamma", TORCH_FN(standard_gamma));
  m.impl("_sample_dirichlet", TORCH_FN(sample_dirichlet));
  m.impl("poisson", TORCH_FN(poisson));
  m.impl("binomial", NPU_FN(binomial));
  m.impl("_standard_gamma_grad", NPU_FN(standard_gamma_grad));
  m.impl("_dirichlet_grad", NPU_FN(dirichlet_grad));
}

}  // namespace npu
