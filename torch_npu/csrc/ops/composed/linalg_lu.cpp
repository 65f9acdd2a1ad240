// LU factorization with partial pivoting, and what follows from it: CANN has none. PyTorch's own compositions (determinants,
// solve, inverse) call these three. Cost: a dozen operators for each column of panels of eight, products for the rest, over all
// matrices of a batch at once; nothing is read back. Who calls it: rows of ops/aten.yaml.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_lu_solve.h>
#include <ATen/ops/lu_unpack.h>
#include <ATen/ops/real.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/doubles.h"
#include "csrc/ops/composed/linalg.h"
#include "csrc/ops/composed/processor.h"

namespace npu {
namespace linalg {

at::Tensor solve_triangular(const at::Tensor& A, const at::Tensor& B, bool upper, bool transpose, bool unit) {
  std::vector<int64_t> batch = at::infer_size(A.sizes().slice(0, A.dim() - 2), B.sizes().slice(0, B.dim() - 2));
  std::vector<int64_t> left = batch, right = batch;
  left.insert(left.end(), {A.size(-2), A.size(-1)});
  right.insert(right.end(), {B.size(-2), B.size(-1)});
  const at::Tensor x = empty(right, B.scalar_type()), copy = empty(left, A.scalar_type());
  if (x.numel() == 0) return x;
  ACLNN(aclnnTriangularSolve)(B.expand(right).resolve_conj(), A.expand(left).resolve_conj(), upper, transpose, unit, x,
                              copy);
  return x;
}

at::Tensor permutation(const at::Tensor& pivots, int64_t rows) {
  const at::Tensor place = at::arange(rows, pivots.options().dtype(at::kLong));
  std::vector<int64_t> shape = pivots.sizes().vec();
  shape.back() = rows;
  at::Tensor order = place.expand(shape);
  for (int64_t j = 0; j < pivots.size(-1); ++j) {
    const at::Tensor other = pivots.slice(-1, j, j + 1).to(at::kLong).sub(1);
    const at::Tensor exchange = where(place.eq(other), static_cast<double>(j), place.expand(shape));
    order = order.gather(-1, other.where(place.eq(j), exchange));
  }
  return order;
}

at::Tensor take_rows(const at::Tensor& x, const at::Tensor& order) {
  if (x.is_complex()) {  // which CANN's function does not take: both parts of a number are two columns
    const int64_t columns = x.size(-1);
    const at::Tensor parts = at::view_as_real(x.resolve_conj()).flatten(-2);
    return at::view_as_complex(take_rows(parts, order).unflatten(-1, {columns, 2}).contiguous());
  }
  std::vector<int64_t> shape = x.sizes().vec();
  shape[shape.size() - 2] = order.size(-1);
  return x.gather(-2, order.unsqueeze(-1).expand(shape));
}

namespace {

// LAPACK's size of an element, by which it chooses pivots.
at::Tensor size_of(const at::Tensor& x) { return x.is_complex() ? at::real(x).abs().add(at::imag(x).abs()) : x.abs(); }

}  // namespace
}  // namespace linalg

namespace {

// Of matrices in double precision. `order`: the rows that come to each place.
struct Factors {
  at::Tensor lu, pivots, order, info;
};

constexpr int64_t kPanel = 8;

// Column by column; the rows of the whole panel are exchanged and updated at each.
Factors factor_panel(const at::Tensor& a, bool pivot) {
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  at::Tensor lu = a.clone(at::MemoryFormat::Contiguous);
  const at::Tensor place = at::arange(m, a.options().dtype(at::kLong));
  const std::vector<int64_t> vector = a.sizes().slice(0, a.dim() - 1).vec();
  at::Tensor order = place.expand(vector);
  at::Tensor info = a.new_zeros(a.sizes().slice(0, a.dim() - 2), a.options().dtype(at::kInt));
  std::vector<at::Tensor> pivots;
  for (int64_t j = 0; j < k; ++j) {
    const at::Tensor other = pivot ? linalg::size_of(lu.select(-1, j).slice(-1, j)).argmax(-1, true).add(j)
                                   : place.slice(0, j, j + 1).expand(info.unsqueeze(-1).sizes());
    pivots.push_back(other.add(1));
    if (pivot) {
      const at::Tensor kept = where(place.eq(other), static_cast<double>(j), place.expand(vector));
      const at::Tensor exchange = other.where(place.eq(j), kept);
      lu = linalg::take_rows(lu, exchange);
      order = order.gather(-1, exchange);
    }
    const at::Tensor value = lu.select(-1, j).select(-1, j), singular = value.eq(0);
    info = where(singular.logical_and(info.eq(0)), static_cast<double>(j + 1), info);
    if (j + 1 == m) continue;
    at::Tensor column = lu.select(-1, j).slice(-1, j + 1);
    column.div_(where(singular, 1.0, value).unsqueeze(-1));
    if (j + 1 == n) continue;
    const at::Tensor row = lu.select(-2, j).slice(-1, j + 1);
    lu.slice(-2, j + 1).slice(-1, j + 1).sub_(column.unsqueeze(-1).mul(row.unsqueeze(-2)));
  }
  return {lu, joined(pivots, -1), order, info};
}

// By halves of the columns: what the left half does to the right one is a triangular system and a product.
Factors factor(const at::Tensor& a, bool pivot) {
  const int64_t k = std::min(a.size(-2), a.size(-1));
  if (k <= kPanel) return factor_panel(a, pivot);
  const int64_t half = k / 2;
  const Factors left = factor(a.slice(-1, 0, half), pivot);
  const at::Tensor right = linalg::take_rows(a.slice(-1, half), left.order);
  const at::Tensor top = left.lu.slice(-2, 0, half), below = left.lu.slice(-2, half);
  const at::Tensor above = linalg::solve_triangular(top, right.slice(-2, 0, half), false, false, true);
  const Factors rest = factor(right.slice(-2, half).sub(product(below, above)), pivot);
  const at::Tensor lower = joined({top, linalg::take_rows(below, rest.order)}, -2);
  const at::Tensor order =
      joined({left.order.slice(-1, 0, half), left.order.slice(-1, half).gather(-1, rest.order)}, -1);
  const at::Tensor later = where(rest.info.eq(0), 0.0, rest.info.add(half));
  return {joined({lower, joined({above, rest.lu}, -2)}, -1), joined({left.pivots, rest.pivots.add(half)}, -1), order,
          later.where(left.info.eq(0), left.info)};
}

Factors factor_on_processor(const at::Tensor& a) {
  const at::IntArrayRef batch = a.sizes().slice(0, a.dim() - 2);
  std::vector<int64_t> short_side = batch.vec();
  short_side.push_back(std::min(a.size(-1), a.size(-2)));
  const Factors found{empty(a.sizes(), a.scalar_type()), empty(short_side, at::kInt), {}, empty(batch, at::kInt)};
  run_on_processor("linalg_lu_factor_ex", {found.lu, found.pivots, found.info}, {a},
                   [](Tensors& outs, const Tensors& ins) {
                     at::linalg_lu_factor_ex_out(outs[0], outs[1], outs[2], ins[0], true, false);
                   });
  return found;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> lu_factor(const at::Tensor& A, bool pivot, bool check_errors) {
  if (std::min(A.size(-2), A.size(-1)) == 0 || A.numel() == 0) {
    const at::TensorOptions ints = A.options().dtype(at::kInt);
    return {A, A.new_zeros({0}, ints), A.new_zeros(A.sizes().slice(0, A.dim() - 2), ints)};
  }
  // The processor's LAPACK always exchanges rows.
  const Factors found = pivot && has_processor_kernels() ? factor_on_processor(A) : factor(wide(A), pivot);
  if (check_errors) at::_linalg_check_errors(found.info, "torch.linalg.lu_factor_ex", A.dim() == 2);
  return {found.lu, found.pivots, found.info};
}

at::Tensor lu_solve(const at::Tensor& LU, const at::Tensor& pivots, const at::Tensor& B, bool left, bool adjoint) {
  if (!left) return lu_solve(LU, pivots, B.mH(), true, !adjoint).mH();
  std::vector<int64_t> batch = at::infer_size(LU.sizes().slice(0, LU.dim() - 2), B.sizes().slice(0, B.dim() - 2));
  std::vector<int64_t> right = batch, rows = batch;
  right.insert(right.end(), {B.size(-2), B.size(-1)});
  rows.push_back(LU.size(-2));
  if (has_processor_kernels()) {
    const at::Tensor x = empty(right, B.scalar_type());
    run_on_processor("linalg_lu_solve", {x}, {LU, pivots, B}, [adjoint](Tensors& outs, const Tensors& ins) {
      at::linalg_lu_solve_out(outs[0], ins[0], ins[1], ins[2], true, adjoint);
    });
    return x;
  }
  const at::Tensor order = linalg::permutation(pivots, LU.size(-2)), lu = wide(LU);
  const at::Tensor b = wide(B).expand(right);
  if (!adjoint) {
    const at::Tensor y = linalg::solve_triangular(lu, linalg::take_rows(b, order.expand(rows)), false, false, true);
    return linalg::solve_triangular(lu, y, true, false, false);
  }
  const at::Tensor conj = lu.conj().resolve_conj();
  const at::Tensor y = linalg::solve_triangular(conj, b, true, true, false);
  const at::Tensor z = linalg::solve_triangular(conj, y, false, true, true);
  return linalg::take_rows(z, order.argsort(int64_t{-1}, false).expand(rows));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lu_unpack(const at::Tensor& LU, const at::Tensor& pivots, bool data,
                                                         bool unpack_pivots) {
  const at::Tensor none = LU.new_empty({0});
  at::Tensor p = none, l = none, u = none;
  const int64_t m = LU.size(-2), n = LU.size(-1), k = std::min(m, n);
  if (data) {
    l = LU.slice(-1, 0, k).tril(-1);
    l.diagonal(0, -2, -1).fill_(1);
    u = LU.slice(-2, 0, k).triu();
  }
  if (unpack_pivots) {
    std::vector<int64_t> shape = LU.sizes().vec();
    shape.back() = m;
    if (has_processor_kernels()) {
      p = empty(shape, LU.scalar_type());
      run_on_processor("lu_unpack", {p}, {LU, pivots}, [](Tensors& outs, const Tensors& ins) {
        outs[0].copy_(std::get<0>(at::lu_unpack(ins[0], ins[1], false, true)));
      });
      return {p, l, u};
    }
    p = LU.new_zeros(shape).scatter_(-2, linalg::permutation(pivots, m).unsqueeze(-2), 1);
  }
  return {p, l, u};
}

}  // namespace npu
