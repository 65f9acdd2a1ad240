// Other factorizations of matrices and what they solve: Cholesky's, by singular values (aclnnSvd), by reflections. Composed where
// CANN's function lacks an output of PyTorch's (which matrices of a batch are singular), or does not exist. Cost: some operators for
// each column. Who calls it: PyTorch's dispatcher; rows of ops/aten.yaml.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/castable.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/doubles.h"
#include "csrc/ops/composed/linalg.h"
#include "csrc/ops/composed/processor.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {

using linalg::solve_triangular;

namespace {

constexpr int64_t kPanel = 8;

// L L^H = A of the lower triangle; info: the first column whose pivot is not positive.
std::pair<at::Tensor, at::Tensor> cholesky_panel(const at::Tensor& a) {
  const int64_t n = a.size(-1);
  at::Tensor l = a.clone(at::MemoryFormat::Contiguous);
  at::Tensor info = a.new_zeros(a.sizes().slice(0, a.dim() - 2), a.options().dtype(at::kInt));
  for (int64_t j = 0; j < n; ++j) {
    const at::Tensor value = l.select(-1, j).select(-1, j);
    const at::Tensor size = value.is_complex() ? at::real(value) : value;
    const at::Tensor bad = size.gt(0).logical_not();
    info = where(bad.logical_and(info.eq(0)), static_cast<double>(j + 1), info);
    const at::Tensor root = where(bad, 1.0, size).sqrt();
    at::Tensor column = l.select(-1, j).slice(-1, j);
    column.div_(root.unsqueeze(-1));
    if (j + 1 == n) break;
    const at::Tensor below = column.slice(-1, 1);
    l.slice(-2, j + 1).slice(-1, j + 1).sub_(below.unsqueeze(-1).mul(below.conj().unsqueeze(-2)));
  }
  return {l.tril(), info};
}

// By halves: the lower left block is a triangular system, what it takes from the lower right one a product.
std::pair<at::Tensor, at::Tensor> cholesky_lower(const at::Tensor& a) {
  const int64_t n = a.size(-1), half = n / 2;
  if (n <= kPanel) return cholesky_panel(a);
  const auto [first, info] = cholesky_lower(a.slice(-2, 0, half).slice(-1, 0, half));
  const at::Tensor corner = a.slice(-2, half).slice(-1, 0, half);
  const at::Tensor below = solve_triangular(first, corner.mH(), false, false, false).mH().resolve_conj();
  const auto [second, later] = cholesky_lower(a.slice(-2, half).slice(-1, half).sub(product(below, below.mH())).tril());
  const std::vector<at::Tensor> left = {first, below};
  const std::vector<at::Tensor> right = {at::zeros_like(below.mH()), second};
  const std::vector<at::Tensor> both = {joined(left, -2), joined(right, -2)};
  const at::Tensor shifted = where(later.eq(0), 0.0, later.add(half));
  return {joined(both, -1), shifted.where(info.eq(0), info)};
}

std::pair<at::Tensor, at::Tensor> cholesky_on_processor(const at::Tensor& a) {
  const at::Tensor l = empty(a.sizes(), a.scalar_type()), info = empty(a.sizes().slice(0, a.dim() - 2), at::kInt);
  run_on_processor("linalg_cholesky_ex", {l, info}, {a}, [](Tensors& outs, const Tensors& ins) {
    at::linalg_cholesky_ex_out(outs[0], outs[1], ins[0], false, false);
  });
  return {l, info};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> cholesky_factor(const at::Tensor& self, bool upper, bool check_errors) {
  if (self.numel() == 0) {
    return {self, self.new_zeros(self.sizes().slice(0, self.dim() - 2), self.options().dtype(at::kInt))};
  }
  const auto [l, info] = has_processor_kernels() ? cholesky_on_processor(upper ? self.mH() : self)
                                                 : cholesky_lower(wide(upper ? self.mH() : self).tril());
  if (check_errors) at::_linalg_check_errors(info, "torch.linalg.cholesky_ex", self.dim() == 2);
  return {upper ? l.mH() : l, info};
}

namespace {

// PyTorch's error at the call, of the batch's first matrix that is not finite. This waits for the matrices, as other devices do.
void check_finite(const at::Tensor& A, const char* name) {
  if (A.numel() == 0) return;
  const at::Tensor bad = A.isfinite().all(-1).all(-1).logical_not();
  at::_linalg_check_errors(bad.to(at::kInt).mul(std::min(A.size(-1), A.size(-2)) + 1), name, A.dim() == 2);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> decompose(const at::Tensor& A, bool full, bool vectors) {
  const int64_t m = A.size(-2), n = A.size(-1), k = std::min(m, n);
  const auto matrices = [&](int64_t rows, int64_t columns) {
    std::vector<int64_t> shape = A.sizes().slice(0, A.dim() - 2).vec();
    shape.insert(shape.end(), {rows, columns});
    return empty(shape, A.scalar_type());
  };
  std::vector<int64_t> values = A.sizes().slice(0, A.dim() - 2).vec();
  values.push_back(k);
  const at::Tensor s = empty(values, c10::toRealValueType(A.scalar_type()));
  at::Tensor u, v;
  if (vectors) {
    u = matrices(m, full ? m : k);
    v = matrices(n, full ? n : k);
  }
  ACLNN(aclnnSvd)(A, full, vectors, s, u, v);
  return {vectors ? u : A.new_empty({0}), s, vectors ? v.mH() : A.new_empty({0})};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> singular_values(const at::Tensor& A, bool full, bool vectors) {
  check_finite(A, "linalg.svd");
  return decompose(A, full, vectors);
}

// A Hermitian matrix plus twice its norm has its eigenvectors and positive eigenvalues, which are singular values.
std::tuple<at::Tensor, at::Tensor> eigen_hermitian(const at::Tensor& A, c10::string_view triangle, bool vectors) {
  if (A.size(-1) == 1) {  // a number is its own eigenvalue, whatever it is
    const at::Tensor number = A.squeeze(-1);
    return {number.is_complex() ? at::real(number) : number, vectors ? A.new_ones(A.sizes()) : A.new_empty({0})};
  }
  const at::Tensor x = wide(A);
  const bool lower = triangle.empty() || triangle[0] == 'L' || triangle[0] == 'l';
  const at::Tensor strict = lower ? x.tril(-1) : x.triu(1);
  at::Tensor whole = strict.add(strict.mH());
  at::Tensor diagonal = x.diagonal(0, -2, -1);
  if (x.is_complex()) diagonal = at::real(diagonal).to(x.scalar_type());
  // Twice Frobenius' norm, of numbers whose squares may be too large.
  const at::Tensor most = whole.abs().amax({-2, -1}).maximum(diagonal.abs().amax(-1)).clamp_min(1e-300);
  const at::Tensor unit = whole.abs().div(most.unsqueeze(-1).unsqueeze(-1)).square().sum({-2, -1});
  const at::Tensor size = diagonal.abs().div(most.unsqueeze(-1)).square().sum(-1).add(unit).sqrt().mul(most).mul(2);
  whole.diagonal(0, -2, -1).copy_(diagonal.add(size.unsqueeze(-1)));
  check_finite(whole, "linalg.eigh");  // the other triangle is not read
  const auto [u, s, vh] = decompose(whole, false, vectors);
  const at::Tensor values = s.sub(size.unsqueeze(-1)).flip({-1});
  return {values, vectors ? u.flip({-1}) : A.new_empty({0})};
}

namespace {

at::Tensor linalg_solve_triangular(const at::Tensor& A, const at::Tensor& B, bool upper, bool left, bool unit) {
  TORCH_CHECK(A.dim() >= 2 && B.dim() >= 2,
              "linalg.solve_triangular: The input tensors must have at least 2 dimensions");
  TORCH_CHECK(A.scalar_type() == B.scalar_type(),
              "linalg.solve_triangular: Expected A and B to have the same dtype, got ", A.scalar_type(), " and ",
              B.scalar_type());
  TORCH_CHECK(A.size(-1) == A.size(-2), "linalg.solve_triangular: A must be batches of square matrices, but they are ",
              A.size(-2), " by ", A.size(-1), " matrices");
  TORCH_CHECK(left ? A.size(-2) == B.size(-2) : A.size(-1) == B.size(-1),
              "linalg.solve_triangular: Incompatible shapes of A and B for the equation ", left ? "AX = B" : "XA = B",
              " (", A.size(-2), "x", A.size(-1), " and ", B.size(-2), "x", B.size(-1), ")");
  const NPUGuard guard(A.device().index());
  if (A.scalar_type() == at::kHalf || A.scalar_type() == at::kBFloat16) {  // as the gradient of a 16-bit qr has
    return linalg_solve_triangular(A.to(at::kFloat), B.to(at::kFloat), upper, left, unit).to(B.scalar_type());
  }
  // Column after column, as LAPACK has it, whose strides PyTorch's meta function promises.
  if (left) {
    const at::Tensor x = solve_triangular(A, B, upper, false, unit);
    return at::empty(x.mT().sizes(), x.options()).mT().copy_(x);
  }
  return solve_triangular(A.mT(), B.mT(), !upper, false, unit).mT();
}

at::Tensor& linalg_solve_triangular_out(const at::Tensor& A, const at::Tensor& B, bool upper, bool left, bool unit,
                                        at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == A.scalar_type(), "linalg.solve_triangular: expected scalar type ", A.scalar_type(),
              " but found ", out.scalar_type());
  return cast_into(out, linalg_solve_triangular(A, B, upper, left, unit));
}

at::Tensor cholesky(const at::Tensor& self, bool upper) {
  if (self.numel() == 0) return at::Tensor(self.new_empty(self.sizes()));
  const auto [factor, info] = at::linalg_cholesky_ex(self, upper, false);
  at::_linalg_check_errors(info, "cholesky", self.dim() == 2);
  return factor;
}
at::Tensor& cholesky_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  return cast_into(out, cholesky(self, upper));
}

// A^-1 B of a matrix given by its factor.
at::Tensor solve_by_factor(const at::Tensor& B, const at::Tensor& factor, bool upper) {
  const at::Tensor l = wide(factor), other = l.mH().resolve_conj(), b = wide(B);
  const at::Tensor y = solve_triangular(upper ? other : l, b, false, false, false);
  return solve_triangular(upper ? l : other, y, true, false, false).to(B.scalar_type());
}
// LAPACK's order of elements, which PyTorch's meta functions promise of these.
at::Tensor by_columns(const at::Tensor& x) { return x.mT().contiguous().mT(); }

at::Tensor cholesky_solve_helper(const at::Tensor& self, const at::Tensor& A, bool upper) {
  const NPUGuard guard(self.device().index());
  return by_columns(solve_by_factor(self, A, upper));
}

at::Tensor cholesky_inverse(const at::Tensor& self, bool upper) {
  TORCH_CHECK(self.dim() >= 2, "cholesky_inverse: The input tensor A must have at least 2 dimensions.");
  TORCH_CHECK(self.size(-1) == self.size(-2), "cholesky_inverse: A must be batches of square matrices, but they are ",
              self.size(-2), " by ", self.size(-1), " matrices");
  const NPUGuard guard(self.device().index());
  at::Tensor unit = self.new_zeros(self.sizes());
  unit.diagonal(0, -2, -1).fill_(1);
  return by_columns(solve_by_factor(unit, self, upper));
}
at::Tensor& cholesky_inverse_out(const at::Tensor& self, bool upper, at::Tensor& out) {
  return cast_into(out, cholesky_inverse(self, upper));
}

// Reflector j of a factorization: below its leading one.
at::Tensor reflector(const at::Tensor& a, int64_t j) {
  at::Tensor v = a.select(-1, j).clone();
  v.slice(-1, 0, j).fill_(0);
  v.select(-1, j).fill_(1);
  return v.unsqueeze(-1);
}

// x - tau v (v^H x)
at::Tensor reflected(const at::Tensor& x, const at::Tensor& v, const at::Tensor& tau) {
  return x.sub(product(v.mul(tau.unsqueeze(-1).unsqueeze(-1)), product(v.mH(), x)));
}

std::tuple<at::Tensor, at::Tensor> geqrf(const at::Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
  const NPUGuard guard(self.device().index());
  const int64_t m = self.size(-2), n = self.size(-1), k = std::min(m, n);
  at::Tensor a = wide(self).clone(at::MemoryFormat::Contiguous);
  std::vector<at::Tensor> taus;
  for (int64_t j = 0; j < k; ++j) {
    const at::Tensor alpha = a.select(-1, j).select(-1, j).clone(), below = a.select(-1, j).slice(-1, j + 1);
    const at::Tensor rest = below.abs().square().sum(-1);
    const at::Tensor head = alpha.is_complex() ? at::real(alpha) : alpha;
    const at::Tensor length = rest.add(alpha.abs().square()).sqrt();
    at::Tensor trivial = rest.eq(0);
    if (alpha.is_complex()) trivial = trivial.logical_and(alpha.eq(head.to(alpha.scalar_type())));
    const at::Tensor beta = where(head.signbit(), length, length.neg());
    const at::Tensor safe = where(trivial, 1.0, beta);
    const at::Tensor tau = where(trivial, 0.0, safe.sub(alpha).div(safe));
    taus.push_back(tau);
    a.select(-1, j).slice(-1, j + 1).div_(where(trivial, 1.0, alpha.sub(beta)).unsqueeze(-1));
    a.select(-1, j).select(-1, j).copy_(alpha.where(trivial, beta.to(alpha.scalar_type())));
    if (j + 1 < n) {
      at::Tensor right = a.slice(-1, j + 1);
      right.copy_(reflected(right, reflector(a, j), tau.conj()));
    }
  }
  std::vector<int64_t> shape = self.sizes().slice(0, self.dim() - 1).vec();
  shape.back() = k;
  const at::Tensor tau = k ? at::stack(taus, -1) : at::Tensor(self.new_empty(shape));
  return {a.to(self.scalar_type()), tau.to(self.scalar_type())};
}
std::tuple<at::Tensor&, at::Tensor&> geqrf_out(const at::Tensor& self, at::Tensor& a, at::Tensor& tau) {
  const auto [factor, taus] = geqrf(self);
  cast_into(a, factor);
  cast_into(tau, taus);
  return {a, tau};
}

at::Tensor householder_product(const at::Tensor& input, const at::Tensor& tau) {
  TORCH_CHECK(input.dim() >= 2, "torch.linalg.householder_product: input must have at least 2 dimensions.");
  TORCH_CHECK(input.size(-2) >= input.size(-1),
              "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]");
  TORCH_CHECK(input.size(-1) >= tau.size(-1),
              "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(input.dim() - tau.dim() == 1,
              "torch.linalg.householder_product: Expected tau to have one dimension less than input, but got tau.ndim "
              "equal to ",
              tau.dim(), " and input.ndim is equal to ", input.dim());
  TORCH_CHECK(input.sizes().slice(0, input.dim() - 2) == tau.sizes().slice(0, tau.dim() - 1),
              "torch.linalg.householder_product: Expected batch dimensions of tau to be equal to input.shape[:-2], but "
              "got ",
              tau.sizes().slice(0, tau.dim() - 1));
  TORCH_CHECK(tau.scalar_type() == input.scalar_type(), "torch.linalg.householder_product: tau dtype ",
              tau.scalar_type(), " does not match input dtype ", input.scalar_type());
  const NPUGuard guard(input.device().index());
  const at::Tensor a = wide(input), t = wide(tau);
  at::Tensor q = a.new_zeros(a.sizes());
  q.diagonal(0, -2, -1).fill_(1);
  for (int64_t j = tau.size(-1) - 1; j >= 0; --j) q = reflected(q, reflector(a, j), t.select(-1, j));
  return by_columns(q.to(input.scalar_type()));
}
at::Tensor& householder_product_out(const at::Tensor& input, const at::Tensor& tau, at::Tensor& out) {
  return cast_into(out, householder_product(input, tau));
}

// The product of reflections, or its adjoint, times a matrix, on either side.
at::Tensor ormqr(const at::Tensor& input, const at::Tensor& tau, const at::Tensor& other, bool left, bool transpose) {
  TORCH_CHECK(input.dim() >= 2, "torch.ormqr: input must have at least 2 dimensions.");
  TORCH_CHECK(other.dim() >= 2, "torch.ormqr: other must have at least 2 dimensions.");
  const int64_t size = other.size(left ? -2 : -1);
  TORCH_CHECK(size >= tau.size(-1), "torch.ormqr: other.shape[", left ? -2 : -1,
              "] must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(size == input.size(-2), "torch.ormqr: other.shape[", left ? -2 : -1,
              "] must be equal to input.shape[-2]");
  TORCH_CHECK(input.dim() - tau.dim() == 1,
              "torch.ormqr: Expected tau to have one dimension less than input, but got tau.ndim equal to ", tau.dim(),
              " and input.ndim is equal to ", input.dim());
  TORCH_CHECK(
      input.dim() == other.dim(),
      "torch.ormqr: Expected other to have the same number of dimensions as input, but got other.ndim equal to ",
      other.dim(), " and input.ndim is equal to ", input.dim());
  TORCH_CHECK(tau.size(-1) == std::min(size, input.size(-1)),
              "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[", left ? -2 : -1, "], input.shape[-1])");
  const at::IntArrayRef batch = input.sizes().slice(0, input.dim() - 2);
  TORCH_CHECK(batch == tau.sizes().slice(0, tau.dim() - 1),
              "torch.ormqr: Expected batch dimensions of tau to be equal to input.shape[:-2], but got ",
              tau.sizes().slice(0, tau.dim() - 1));
  TORCH_CHECK(batch == other.sizes().slice(0, other.dim() - 2),
              "torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but got ",
              other.sizes().slice(0, other.dim() - 2));
  TORCH_CHECK(tau.scalar_type() == input.scalar_type() && other.scalar_type() == input.scalar_type(),
              "torch.ormqr: Expected input, tau and other to have the same dtype, but they are ", input.scalar_type(),
              ", ", tau.scalar_type(), " and ", other.scalar_type());
  const NPUGuard guard(input.device().index());
  const at::Tensor a = wide(input), t = wide(tau);
  const bool adjoint = transpose == left;  // x Q is (Q^H x^H)^H
  at::Tensor x = left ? wide(other) : wide(other).mH();
  const int64_t k = tau.size(-1);
  for (int64_t i = 0; i < k; ++i) {
    const int64_t j = adjoint ? i : k - 1 - i;
    const at::Tensor factor = t.select(-1, j);
    x = reflected(x, reflector(a, j), adjoint ? factor.conj() : factor);
  }
  return by_columns((left ? x : x.mH()).to(input.scalar_type()));
}
at::Tensor& ormqr_out(const at::Tensor& input, const at::Tensor& tau, const at::Tensor& other, bool left,
                      bool transpose, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == input.scalar_type(),
              "torch.ormqr: Expected input and result to have the same dtype, "
              "but input has dtype ",
              input.dtype(), " and result has dtype ", out.dtype());
  return cast_into(out, ormqr(input, tau, other, left, transpose));
}

// Taylor's polynomial of the matrix over a power of two, squared as often. How often is read back: the largest norm decides.
at::Tensor matrix_exp(const at::Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "linalg.matrix_exp: The input tensor A must have at least 2 dimensions.");
  TORCH_CHECK(self.size(-1) == self.size(-2), "linalg.matrix_exp: A must be batches of square matrices, but they are ",
              self.size(-2), " by ", self.size(-1), " matrices");
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "linalg.matrix_exp: Expected a floating point or complex tensor as input. Got ", self.scalar_type());
  const NPUGuard guard(self.device().index());
  if (self.numel() == 0) return self.clone();
  const at::Tensor a = wide(self);
  const double norm = a.abs().sum(-2).max().item<double>();
  const int squarings = norm > 0.5 && norm < 1e300 ? static_cast<int>(std::ceil(std::log2(norm))) + 1 : 0;
  const at::Tensor small = a.mul(std::ldexp(1.0, -squarings));
  at::Tensor unit = a.new_zeros(a.sizes());
  unit.diagonal(0, -2, -1).fill_(1);
  at::Tensor result = unit;
  for (int k = 18; k > 0; --k) result = unit.add(product(small, result).div(k));
  for (int i = 0; i < squarings; ++i) result = product(result, result);
  return result.to(self.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linalg_solve_triangular", NPU_FN(linalg_solve_triangular));
  m.impl("linalg_solve_triangular.out", NPU_FN(linalg_solve_triangular_out));
  m.impl("cholesky", NPU_FN(cholesky));
  m.impl("cholesky.out", NPU_FN(cholesky_out));
  m.impl("_cholesky_solve_helper", NPU_FN(cholesky_solve_helper));
  m.impl("cholesky_inverse", NPU_FN(cholesky_inverse));
  m.impl("cholesky_inverse.out", NPU_FN(cholesky_inverse_out));
  m.impl("geqrf", NPU_FN(geqrf));
  m.impl("geqrf.a", NPU_FN(geqrf_out));
  m.impl("linalg_householder_product", NPU_FN(householder_product));
  m.impl("linalg_householder_product.out", NPU_FN(householder_product_out));
  m.impl("ormqr", NPU_FN(ormqr));
  m.impl("ormqr.out", NPU_FN(ormqr_out));
  m.impl("linalg_matrix_exp", TORCH_FN(matrix_exp));
}

}  // namespace npu
