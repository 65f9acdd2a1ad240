// Compressed layouts (CSR, CSC, BSR, BSC): sums and products, taken as COO (mm.h), and the check of their indices.
#include <ATen/ExpandUtils.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/ops/_to_sparse_bsc_native.h>
#include <ATen/ops/_to_sparse_bsr_native.h>
#include <ATen/ops/_to_sparse_csc_native.h>
#include <ATen/ops/_to_sparse_csr_native.h>
#include <ATen/ops/_validate_compressed_sparse_indices.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/sparse/join.h"
#include "csrc/ops/sparse/mm.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

namespace csr = at::sparse_csr;

at::Tensor as_coo(const at::Tensor& self) { return self.layout() == at::kStrided ? self : self.to_sparse(); }

// Gives a dense or COO result to out, in out's layout.
void give(const at::Tensor& result, const at::Tensor& out, const at::Tensor& like) {
  if (out.layout() == at::kStrided) {
    resize_out(out, result.sizes());
    out.copy_(result.layout() == at::kStrided ? result : result.to_dense());
    return;
  }
  const at::Tensor of_layout = csr::is_sparse_compressed(like) && like.layout() == out.layout() ? like : out;
  at::OptionalIntArrayRef blocks;
  at::DimVector block;
  if (out.layout() == at::kSparseBsr || out.layout() == at::kSparseBsc) {
    block = csr::getBlockSize(of_layout);
    blocks = block;
  }
  const bool hybrid = of_layout.dim() == result.dim() && of_layout.dense_dim() > 0 && result.layout() == at::kStrided;
  const at::Tensor made =
      result.to_sparse(out.layout(), blocks, hybrid ? std::make_optional(of_layout.dense_dim()) : std::nullopt);
  const auto [compressed, plain] = csr::getCompressedPlainIndices(made);
  const at::ScalarType type = csr::getCompressedPlainIndices(of_layout).first.scalar_type();
  csr::get_sparse_csr_impl(out)->set_member_tensors(compressed.to(type), plain.to(type),
                                                    made.values().to(out.scalar_type()), made.sizes());
}

at::Tensor& add_compressed_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha,
                               at::Tensor& out) {
  const NPUGuard guard(out.device().index());
  sparse::check_cast("add", at::promoteTypes(self.scalar_type(), other.scalar_type()), out.scalar_type());
  if (self.layout() == at::kStrided) {
    give(self.add(as_coo(other), alpha), out, other);
    return out;
  }
  TORCH_CHECK(self.layout() == other.layout(), "add: expected 'self' and 'other' to have one layout, got ",
              self.layout(), " and ", other.layout(), "; use add(dense, sparse) for a dense one");
  give(as_coo(self).add(as_coo(other), alpha).coalesce(), out, self);
  return out;
}

at::Tensor product(const at::Tensor& mat1, const at::Tensor& mat2) {
  const bool first = mat1.layout() != at::kStrided, second = mat2.layout() != at::kStrided;
  if (first && second) return sparse::mm_sparse(as_coo(mat1), as_coo(mat2));
  if (first) return sparse::mm(as_coo(mat1), mat2);
  return second ? sparse::mm(as_coo(mat2).transpose(0, 1), mat1.transpose(0, 1)).transpose(0, 1) : mat1.mm(mat2);
}

at::Tensor& addmm_compressed_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                 const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  const NPUGuard guard(out.device().index());
  TORCH_CHECK(mat1.dim() == 2 && mat2.dim() == 2, "addmm: 2-D matrices expected, got ", mat1.dim(), "-D and ",
              mat2.dim(), "-D tensors");
  TORCH_CHECK(mat1.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (", mat1.size(0), "x",
              mat1.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type(),
              "addmm: expected mat1 and mat2 to have the same dtype, but got ", mat1.scalar_type(), " and ",
              mat2.scalar_type());
  const at::Tensor made = product(mat1, mat2);
  if (self.layout() == at::kStrided) {
    const at::Tensor dense = made.layout() == at::kStrided ? made : made.to_dense();
    give(sparse::add_scaled(*at::expand_size(self, {mat1.size(0), mat2.size(1)}, "addmm"), dense, beta, alpha), out,
         mat1);
    return out;
  }
  TORCH_CHECK(self.sizes().equals(made.sizes()), "addmm: expected self of sizes ", made.sizes(), ", got ",
              self.sizes());
  const at::Tensor sum = made.layout() == at::kStrided ? made.to_sparse() : made;
  give(sparse::add_scaled(as_coo(self), sum, beta, alpha).coalesce(), out, self);
  return out;
}

at::Tensor& addmv_out(const at::Tensor& self, const at::Tensor& mat, const at::Tensor& vec, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  const NPUGuard guard(out.device().index());
  TORCH_CHECK(mat.layout() != at::kStrided && vec.layout() == at::kStrided,
              "addmv: expected a sparse matrix and a dense vector");
  TORCH_CHECK(mat.dim() == 2 && vec.dim() == 1 && mat.size(1) == vec.size(0), "addmv: size mismatch, got mat ",
              mat.sizes(), " and vec ", vec.sizes());
  const at::Tensor made = sparse::mm(as_coo(mat), vec.unsqueeze(1)).squeeze(1);
  give(sparse::add_scaled(*at::expand_size(self, {mat.size(0)}, "addmv"), made, beta, alpha), out, mat);
  return out;
}

// Conversions that turn rows into columns ask for a kernel by device: those go by way of COO, which has no batches.
bool turns(const at::Tensor& self, bool to_rows) {
  const bool rows = self.layout() == at::kSparseCsr || self.layout() == at::kSparseBsr;
  if (rows == to_rows) return false;
  TORCH_CHECK_NOT_IMPLEMENTED(self.dim() - self.dense_dim() == 2, "npu: a batch of ", self.layout(),
                              " tensors of shape ", self.sizes(),
                              " cannot be converted between rows and columns; convert each one");
  return true;
}

bool has_blocks(const at::Tensor& self) { return self.layout() == at::kSparseBsr || self.layout() == at::kSparseBsc; }

at::Tensor to_csr(const at::Tensor& self, std::optional<int64_t> dense_dim) {
  const bool by_coo = !has_blocks(self) && !dense_dim && turns(self, true);
  return by_coo ? self.to_sparse().to_sparse_csr() : at::native::sparse_compressed_to_sparse_csr(self, dense_dim);
}

at::Tensor to_csc(const at::Tensor& self, std::optional<int64_t> dense_dim) {
  const bool by_coo = !has_blocks(self) && !dense_dim && turns(self, false);
  return by_coo ? self.to_sparse().to_sparse_csc() : at::native::sparse_compressed_to_sparse_csc(self, dense_dim);
}

at::Tensor to_bsr(const at::Tensor& self, at::IntArrayRef block, std::optional<int64_t> dense_dim) {
  return !dense_dim && turns(self, true) ? self.to_sparse().to_sparse_bsr(block)
                                         : at::native::sparse_compressed_to_sparse_bsr(self, block, dense_dim);
}

at::Tensor to_bsc(const at::Tensor& self, at::IntArrayRef block, std::optional<int64_t> dense_dim) {
  return !dense_dim && turns(self, false) ? self.to_sparse().to_sparse_bsc(block)
                                          : at::native::sparse_compressed_to_sparse_bsc(self, block, dense_dim);
}

// Its result is an error or none: the host has to wait for it in any case.
void validate(bool is_crow, const at::Tensor& compressed, const at::Tensor& plain, int64_t cdim, int64_t dim,
              int64_t nnz) {
  at::_validate_compressed_sparse_indices(is_crow, compressed.cpu(), plain.cpu(), cdim, dim, nnz);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("add.out", NPU_FN(add_compressed_out));
  m.impl("addmm.out", NPU_FN(addmm_compressed_out));
  m.impl("addmv.out", NPU_FN(addmv_out));
  m.impl("_to_sparse_csr", NPU_FN(to_csr));
  m.impl("_to_sparse_csc", NPU_FN(to_csc));
  m.impl("_to_sparse_bsr", NPU_FN(to_bsr));
  m.impl("_to_sparse_bsc", NPU_FN(to_bsc));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_validate_compressed_sparse_indices", NPU_FN(validate)); }

}  // namespace npu
