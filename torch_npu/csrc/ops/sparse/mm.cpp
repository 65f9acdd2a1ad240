// Products with COO matrices: rows of the dense operand, gathered, scaled and added up; of two sparse ones, pairs of entries.
#include "csrc/ops/sparse/mm.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "csrc/core/device.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/sparse/join.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace sparse {
namespace {

constexpr int64_t kElements = int64_t{1} << 26;  // of one step's gathered rows: 256 MiB of float

// Rows cols of dense, times values, added to rows of the result.
at::Tensor gathered(const at::Tensor& rows, const at::Tensor& cols, const at::Tensor& values, const at::Tensor& dense,
                    int64_t m) {
  const at::ScalarType type = dense.scalar_type();
  const bool half = type == at::kHalf || type == at::kBFloat16;
  at::Tensor out = at::zeros({m, dense.size(1)}, dense.options().dtype(half ? at::kFloat : type));
  const int64_t step = std::max<int64_t>(1, kElements / std::max<int64_t>(1, dense.size(1)));
  for (int64_t begin = 0; begin < rows.numel() && out.numel() > 0; begin += step) {
    const int64_t end = std::min(begin + step, rows.numel());
    const at::Tensor part = dense.index_select(0, cols.slice(0, begin, end)).to(out.scalar_type());
    const at::Tensor scale = values.slice(0, begin, end).to(out.scalar_type()).unsqueeze(1);
    out.index_add_(0, rows.slice(0, begin, end), part.mul(scale));
  }
  return out.to(type);
}

}  // namespace

at::Tensor mm(const at::Tensor& self, const at::Tensor& dense) {
  const at::Tensor indices = self._indices();
  return gathered(indices.select(0, 0), indices.select(0, 1), self._values(), dense, self.size(0));
}

at::Tensor mm_sparse(const at::Tensor& self, const at::Tensor& other) {
  const at::Tensor a = self.coalesce(), b = other.coalesce();
  const auto [left, right] = join(a._indices().select(0, 1).contiguous(), b._indices().select(0, 0).contiguous());
  const std::vector<at::Tensor> places = {a._indices().select(0, 0).index_select(0, left),
                                          b._indices().select(0, 1).index_select(0, right)};
  const at::Tensor values = a._values().index_select(0, left).mul(b._values().index_select(0, right));
  return coo(self, {self.size(0), other.size(1)}, at::stack(places), values, false).coalesce();
}

at::Tensor add_scaled(const at::Tensor& self, const at::Tensor& product, const at::Scalar& beta,
                      const at::Scalar& alpha) {
  const at::Tensor scaled = alpha.equal(1) ? product : product.mul(alpha).to(product.scalar_type());
  if (beta.equal(0)) return scaled;
  return (beta.equal(1) ? self : self.mul(beta).to(self.scalar_type())).add(scaled);
}

}  // namespace sparse

namespace {

void check_matrices(const char* op, const at::Tensor& mat1, const at::Tensor& mat2) {
  TORCH_CHECK(mat1.dim() == 2, op, ": Expected mat1 to be a matrix, got ", mat1.dim(), "-D tensor");
  TORCH_CHECK(mat2.dim() == 2, op, ": Expected mat2 to be a matrix, got ", mat2.dim(), "-D tensor");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", mat1.size(0), "x",
              mat1.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type(), op, ": expected mat1 and mat2 to have the same dtype, but got ",
              mat1.scalar_type(), " and ", mat2.scalar_type());
}

at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  const NPUGuard guard(out.device().index());
  TORCH_CHECK(mat1.is_sparse() && !mat2.is_sparse(), "addmm: expected mat1 to be sparse and mat2 to be dense");
  TORCH_CHECK(mat1.sparse_dim() == 2 && mat1.dense_dim() == 0, "addmm: matrices expected, got mat1 with ",
              mat1.sparse_dim(), " sparse and ", mat1.dense_dim(), " dense dimensions");
  check_matrices("addmm", mat1, mat2);
  const auto bias = at::expand_size(self, {mat1.size(0), mat2.size(1)}, "addmm_out");
  const at::Tensor sum = sparse::add_scaled(*bias, sparse::mm(mat1, mat2), beta, alpha);
  resize_out(out, sum.sizes());
  out.copy_(sum);
  return out;
}

at::Tensor addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  at::Tensor out = at::empty({0}, self.options());
  return addmm_out(self, mat1, mat2, beta, alpha, out);
}

at::Tensor& addmm_(at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                   const at::Scalar& alpha) {
  return addmm_out(self, mat1, mat2, beta, alpha, self);
}

at::Tensor sparse_matmul(const at::Tensor& mat1, const at::Tensor& mat2) {
  const NPUGuard guard(mat1.device().index());
  check_matrices("sparse_mm", mat1, mat2);
  TORCH_CHECK(mat1.dense_dim() == 0 && mat2.dense_dim() == 0, "sparse_mm: scalar values expected, got ",
              mat1.dense_dim(), "D and ", mat2.dense_dim(), "D values");
  return sparse::mm_sparse(mat1, mat2);
}

// The batches one below the other, as one matrix.
at::Tensor& bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  const NPUGuard guard(self.device().index());
  TORCH_CHECK(!mat2.is_sparse(), "bmm_sparse: Tensor 'mat2' must be dense");
  TORCH_CHECK(self.dense_dim() == 0, "bmm_sparse: Tensor 'self' must have 0 dense dims, but has ", self.dense_dim());
  TORCH_CHECK(self.sparse_dim() == 3, "bmm_sparse: Tensor 'self' must have 3 sparse dims, but has ", self.sparse_dim());
  TORCH_CHECK(mat2.dim() == 3, "bmm_sparse: Tensor 'mat2' must have 3 dims, but has ", mat2.dim());
  TORCH_CHECK(self.size(0) == mat2.size(0), "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
  TORCH_CHECK(self.size(2) == mat2.size(1), "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
  const int64_t batch = self.size(0), m = self.size(1), k = self.size(2), n = mat2.size(2);
  const at::Tensor at = self._indices();
  const std::vector<at::Tensor> places = {at.select(0, 0).mul(m).add(at.select(0, 1)),
                                          at.select(0, 0).mul(k).add(at.select(0, 2))};
  const at::Tensor flat = sparse::coo(self, {batch * m, batch * k}, at::stack(places), self._values(), false);
  resize_out(out, {batch, m, n});
  out.copy_(sparse::mm(flat, mat2.reshape({batch * k, n})).reshape({batch, m, n}));
  return out;
}

at::Tensor bmm(const at::Tensor& self, const at::Tensor& mat2) {
  at::Tensor out = at::empty({0}, mat2.options());
  return bmm_out(self, mat2, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("addmm.out", NPU_FN(addmm_out));
  m.impl("addmm", NPU_FN(addmm));
  m.impl("addmm_", NPU_FN(addmm_));
  m.impl("_sparse_sparse_matmul", NPU_FN(sparse_matmul));
  m.impl("bmm.out", NPU_FN(bmm_out));
  m.impl("bmm", NPU_FN(bmm));
}

}  // namespace npu
