// Orthogonal polynomials by their recurrences, in double precision. Cost: a step for each order up to the largest asked for, which
// is read back from the device. Who calls it: rows of ops/aten.yaml.
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/doubles.h"
#include "csrc/ops/composed/rounded.h"

#include <algorithm>
#include <cmath>

namespace npu {
namespace {

// Orders beyond these are not numbers, as on the CPU.
constexpr double kLargestHermite = 512;

at::Tensor first_of(Polynomial kind, const at::Tensor& x) {
  switch (kind) {
    case Polynomial::kU:
    case Polynomial::kHermite:
      return x.mul(2);
    case Polynomial::kV:
      return x.mul(2).sub(1);
    case Polynomial::kW:
      return x.mul(2).add(1);
    case Polynomial::kLaguerre:
      return x.neg().add(1);
    default:
      return x;
  }
}

// The polynomial of order k + 1 from those of k (q) and k - 1 (p).
at::Tensor next_of(Polynomial kind, const at::Tensor& x, const at::Tensor& q, const at::Tensor& p, double k) {
  switch (kind) {
    case Polynomial::kHermite:
      return x.mul(q).mul(2).sub(p, 2 * k);
    case Polynomial::kHermiteE:
      return x.mul(q).sub(p, k);
    case Polynomial::kLaguerre:
      return x.neg().add(2 * k + 1).mul(q).sub(p, k).div(k + 1);
    case Polynomial::kLegendre:
      return x.mul(q).mul(2 * k + 1).sub(p, k).div(k + 1);
    default:
      return x.mul(q).mul(2).sub(p);
  }
}

at::Tensor evaluate(Polynomial kind, const at::Tensor& x, const at::Tensor& orders) {
  const at::Tensor n = truncated(wide(orders));
  const at::Tensor argument = broadcast(x, n).first;
  if (argument.numel() == 0) return argument;
  const bool hermite = kind == Polynomial::kHermite || kind == Polynomial::kHermiteE;
  const at::Tensor finite = n.nan_to_num(-1, -1, -1);
  double largest = finite.max().item<double>();
  if (hermite) largest = std::min(largest, kLargestHermite);
  at::Tensor p = argument.new_empty(argument.sizes()).fill_(1), q = first_of(kind, argument);
  at::Tensor result = p.masked_fill(finite.lt(0), 0);
  for (int64_t k = 1; static_cast<double>(k) <= largest; ++k) {
    result = where(finite.eq(k), q, result);
    at::Tensor next = next_of(kind, x, q, p, static_cast<double>(k));
    p = std::move(q);
    q = std::move(next);
  }
  return hermite ? result.masked_fill(finite.gt(kLargestHermite), NAN) : result;
}

}  // namespace

at::Tensor polynomial(Polynomial kind, const at::Tensor& x, const at::Tensor& n) {
  return rounded(evaluate(kind, wide(x), n), x);
}

at::Tensor shifted_polynomial(Polynomial kind, const at::Tensor& x, const at::Tensor& n) {
  return rounded(evaluate(kind, wide(x).mul(2).sub(1), n), x);
}

}  // namespace npu
