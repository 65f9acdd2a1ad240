// Scaled Bessel functions, the normal distribution's, zeta, polygamma and incomplete gamma functions, in double precision by
// series and asymptotic expansions. Who calls it: rows of ops/aten.yaml.
#include <ATen/native/Math.h>

#include "aten/special_functions.h"  // kTemme
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/rounded.h"

namespace npu {
namespace {

constexpr double kPi = c10::pi<double>;

at::Tensor chebyshev(const at::Tensor& x, std::tuple<const double*, size_t> coefficients) {
  const auto [c, n] = coefficients;
  at::Tensor b0 = x.new_empty(x.sizes()).fill_(c[0]), b1 = b0.new_empty(x.sizes()).fill_(0), b2;
  for (size_t i = 1; i < n; ++i) {
    b2 = std::move(b1);
    b1 = std::move(b0);
    b0 = x.mul(b1).sub(b2).add(c[i]);
  }
  return b0.sub(b2).mul(0.5);
}

at::Tensor all(double value, const at::Tensor& like) { return like.new_empty(like.sizes()).fill_(value); }

// Even-index Bernoulli numbers over factorials: B(2k) / (2k)!, k = 1 …
constexpr double kBernoulli[] = {1.0 / 12,
                                 -1.0 / 720,
                                 1.0 / 30240,
                                 -1.0 / 1209600,
                                 1.0 / 47900160,
                                 -691.0 / 1307674368000.0,
                                 1.0 / 74724249600.0,
                                 -3617.0 / 10670622842880000.0,
                                 43867.0 / 5109094217170944000.0};

// Sum of (q + k)^-x: terms up to an argument that is large, then Euler and Maclaurin's formula.
at::Tensor hurwitz(const at::Tensor& x, const at::Tensor& q) {
  // How many terms: as many as it takes the smallest q to get there.
  const double least = q.nan_to_num(0, 0, 0).min().item<double>();
  const auto terms = static_cast<int64_t>(std::clamp(std::ceil(10 - least), 0.0, 1e6));
  at::Tensor sum = all(0, x), at = q, last;
  for (int64_t k = 0; k < terms; ++k) {
    sum = sum.add(at.pow(x.neg()));
    at = at.add(1);
  }
  const at::Tensor power = at.pow(x.neg());
  at::Tensor result = sum.add(power.mul(at).div(x.sub(1))).add(power.mul(0.5));
  at::Tensor factor = x.mul(power).div(at);
  double step = 0;
  for (const double bernoulli : kBernoulli) {
    result = result.add(factor.mul(bernoulli));
    factor = factor.mul(x.add(step + 1)).mul(x.add(step + 2)).div(at.square());
    step += 2;
  }
  return where(power.eq(0), sum, result);
}

}  // namespace

at::Tensor i0e(const at::Tensor& self) {
  const at::Tensor x = wide(self).abs();
  const at::Tensor small = chebyshev(x.div(2).sub(2), ::chebyshev_coefficients_i0e_A<double>());
  const at::Tensor large = chebyshev(x.reciprocal().mul(32).sub(2), ::chebyshev_coefficients_i0e_B<double>());
  return rounded(where(x.le(8), small, large.div(x.sqrt())), self);
}

at::Tensor i1e(const at::Tensor& self) {
  const at::Tensor v = wide(self), x = v.abs();
  const at::Tensor small = chebyshev(x.div(2).sub(2), ::chebyshev_coefficients_i1e_A<double>()).mul(x);
  const at::Tensor large = chebyshev(x.reciprocal().mul(32).sub(2), ::chebyshev_coefficients_i1e_B<double>());
  const at::Tensor result = where(x.le(8), small, large.div(x.sqrt()));
  return rounded(where(v.lt(0), result.neg(), result), self);
}

// exp(x^2) erfc(x): where erfc is too small, by the asymptotic series in 1 / 2x^2.
at::Tensor erfcx(const at::Tensor& self) {
  const at::Tensor v = wide(self), x = v.abs();
  const at::Tensor near = x.clamp_max(9), far = x.clamp_min(9);
  const at::Tensor t = far.square().mul(2).reciprocal();
  at::Tensor term = all(1, t), sum = term;
  for (int k = 1; k <= 16; ++k) {
    term = term.mul(t).mul(-(2.0 * k - 1));
    sum = sum.add(term);
  }
  const at::Tensor positive = where(x.le(9), near.square().exp().mul(near.erfc()), sum.div(far).div(std::sqrt(kPi)));
  const at::Tensor negative = v.square().exp().mul(2).sub(positive);
  return rounded(where(v.ne(v), v, where(v.lt(0), negative, positive)), self);
}

at::Tensor log_ndtr(const at::Tensor& self) {
  const at::Tensor x = wide(self), t = x.mul(std::sqrt(0.5));
  return rounded(where(x.lt(-1), erfcx(t.neg()).div(2).log().sub(t.square()), t.erfc().div(-2).log1p()), self);
}

at::Tensor entr(const at::Tensor& self) {
  const at::Tensor x = wide(self);
  const at::Tensor positive = x.clamp_min(0).mul(x.clamp_min(0).log()).neg();
  const at::Tensor rest = x.new_empty(x.sizes()).fill_(-INFINITY);
  return rounded(where(x.ne(x), x, where(x.gt(0), positive, where(x.eq(0), 0.0, rest))), self);
}

at::Tensor xlog1py(const at::Tensor& self, const at::Tensor& other) {
  const at::Tensor x = wide(self), y = wide(other), product = x.mul(y.log1p());
  return rounded(where(y.ne(y), NAN, where(x.eq(0), 0.0, product)), self);
}

at::Tensor zeta(const at::Tensor& self, const at::Tensor& other) {
  const auto [x, q] = broadcast(wide(self), wide(other));
  if (x.numel() == 0) return x;
  const at::Tensor pole = q.le(0).logical_and(q.eq(q.floor()));
  const at::Tensor undefined = q.lt(0).logical_and(x.ne(x.floor())).logical_or(x.lt(1));
  const at::Tensor value = where(pole.logical_or(undefined), 1.0, q);
  const at::Tensor result = where(pole, INFINITY, hurwitz(x.clamp_min(1), value));
  const at::Tensor none = undefined.logical_and(x.lt(1).logical_or(pole.logical_not()));
  return rounded(where(x.eq(1), INFINITY, where(none, NAN, result)), self);
}

// The derivative of digamma of order n. The first one below one half by reflection.
at::Tensor polygamma(int64_t n, const at::Tensor& self) {
  const at::Tensor x = wide(self);
  if (n == 0) return rounded(x.digamma(), self);
  if (x.numel() == 0) return x;
  if (n == 1) {
    const at::Tensor mirrored = x.lt(0.5);
    const at::Tensor y = where(mirrored, x.neg().add(1), x);
    const at::Tensor value = hurwitz(all(2, y), y.clamp_min(0.5));
    // At a pole the sine of pi rounded to the operand's type decides how large the result is, as on the CPU.
    const at::Tensor sine = x.to(self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat).mul(kPi).sin();
    const at::Tensor other = wide(sine).square().reciprocal().mul(kPi * kPi).sub(value);
    return rounded(where(mirrored, other, value), self);
  }
  const double sign = n % 2 ? 1 : -1;
  const at::Tensor sum = zeta(all(static_cast<double>(n + 1), x), x);
  return rounded(sum.mul(sign * std::tgamma(static_cast<double>(n + 1))), self);
}

namespace {

// Both, P and Q, for a large a and an x near it: Temme's expansion (DLMF 8.12.3), of whose rows twelve are enough from a = 20 on.
std::pair<at::Tensor, at::Tensor> by_expansion(const at::Tensor& a, const at::Tensor& x) {
  const at::Tensor sigma = x.sub(a).div(a);
  const at::Tensor eta = sigma.sign().mul(sigma.log1p().sub(sigma).mul(-2).clamp_min(0).sqrt());
  at::Tensor sum = all(0, a);
  for (int k = 12; k >= 0; --k) {
    at::Tensor row = all(kTemme[k][24], a);
    for (int n = 23; n >= 0; --n) row = row.mul(eta).add(kTemme[k][n]);
    sum = sum.div(a).add(row);
  }
  const at::Tensor rest = eta.square().mul(a).mul(-0.5).exp().mul(sum).div(a.mul(2 * kPi).sqrt());
  const at::Tensor end = eta.mul(a.div(2).sqrt());
  return {end.neg().erfc().mul(0.5).sub(rest), end.erfc().mul(0.5).add(rest)};
}

// Both, P by its series below a + 1, Q by its continued fraction above; each is one less the other. Cost:
// steps until no element changes, asked for every 32 of them.
std::pair<at::Tensor, at::Tensor> by_steps(const at::Tensor& a, const at::Tensor& x) {
  const at::Tensor series = x.lt(a.add(1));
  const at::Tensor factor = a.mul(x.log()).sub(x).sub(a.lgamma()).exp();
  const at::Tensor below = where(series, x, 0.0), above = where(series, a.add(2), x);

  at::Tensor term = a.reciprocal(), sum = term, n = a;
  for (int block = 0; block < 64; ++block) {
    for (int i = 0; i < 32; ++i) {
      n = n.add(1);
      term = term.mul(below).div(n);
      sum = sum.add(term);
    }
    if (!term.gt(sum.mul(1e-17)).any().item<bool>()) break;
  }
  const at::Tensor p = sum.mul(factor);

  const double tiny = 1e-300;
  at::Tensor b = above.sub(a).add(1), c = b.mul(0).add(1 / tiny), d = b.reciprocal(), h = d, change;
  double k = 1;
  for (int block = 0; block < 64; ++block) {
    for (int i = 0; i < 32; ++i, k += 1) {
      const at::Tensor an = a.sub(k).mul(k);
      b = b.add(2);
      d = an.mul(d).add(b);
      d = where(d.abs().lt(tiny), tiny, d).reciprocal();
      c = b.add(an.div(c));
      c = where(c.abs().lt(tiny), tiny, c);
      change = d.mul(c);
      h = h.mul(change);
    }
    if (!change.sub(1).abs().gt(1e-16).any().item<bool>()) break;
  }
  const at::Tensor q = h.mul(factor);
  return {where(series, p, q.neg().add(1)), where(series, p.neg().add(1), q).clamp_min(0)};
}

std::pair<at::Tensor, at::Tensor> incomplete_gamma(const at::Tensor& first, const at::Tensor& second) {
  const auto [a, x] = broadcast(wide(first), wide(second));
  const at::Tensor near = a.gt(20).logical_and(x.sub(a).abs().lt(a.mul(0.3)));
  const auto expanded = by_expansion(where(near, a, 100.0), where(near, x, 100.0));
  const auto stepped = by_steps(where(near, 1.0, a), where(near, 0.5, x));
  at::Tensor lower = where(near, expanded.first, stepped.first), upper = where(near, expanded.second, stepped.second);

  const auto set = [&](const at::Tensor& at, double low, double high) {
    lower = lower.masked_fill(at, low);
    upper = upper.masked_fill(at, high);
  };
  const at::Tensor zero = a.eq(0), infinite = a.eq(INFINITY);
  set(x.eq(0), 0, 1);
  set(x.eq(INFINITY), 1, 0);
  set(infinite, 0, 1);
  set(zero, 1, 0);
  set(infinite.logical_and(x.eq(INFINITY)).logical_or(zero.logical_and(x.eq(0))), NAN, NAN);
  set(a.lt(0).logical_or(x.lt(0)).logical_or(a.ne(a)).logical_or(x.ne(x)), NAN, NAN);
  return {lower, upper};
}

}  // namespace

at::Tensor igamma(const at::Tensor& a, const at::Tensor& x) { return incomplete_gamma(a, x).first; }
at::Tensor igammac(const at::Tensor& a, const at::Tensor& x) { return incomplete_gamma(a, x).second; }

}  // namespace npu
