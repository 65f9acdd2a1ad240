// Products of CSR matrices that look at entries only: of two dense matrices at a sparse one's places, and with a dense one by another
// reduction than a sum. By rows gathered for each entry, a step of entries at a time. Who calls it: PyTorch's dispatcher.
#include <ATen/OpMathType.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

#include "csrc/core/device.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/sparse/mm.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

constexpr int64_t kElements = int64_t{1} << 26;  // of one step's gathered rows

// Each entry's row and column, int64, of one matrix.
struct Entries {
  at::Tensor rows, cols;
  Entries(const at::Tensor& crow, const at::Tensor& col) {
    const at::Tensor ends = crow.slice(0, 1).to(at::kLong).contiguous();
    cols = col.to(at::kLong);
    rows = at::searchsorted(ends, at::arange(cols.numel(), cols.options()), false, true);
  }
};

// A product's elements at each entry's place.
at::Tensor sampled(const Entries& at, const at::Tensor& mat1, const at::Tensor& mat2) {
  const at::Tensor right = mat2.transpose(0, 1);
  const int64_t n = at.rows.numel(), step = std::max<int64_t>(1, kElements / std::max<int64_t>(1, mat1.size(1)));
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < n; begin += step) {
    const int64_t end = std::min(begin + step, n);
    const at::Tensor a = mat1.index_select(0, at.rows.slice(0, begin, end));
    parts.push_back(a.mul(right.index_select(0, at.cols.slice(0, begin, end))).sum(-1));
  }
  if (parts.empty()) return at::Tensor(mat1.new_zeros({0}));
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

void check_sampled(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2) {
  TORCH_CHECK(self.layout() == at::kSparseCsr, "sampled_addmm: Expected self to have sparse csr layout, but got ",
              self.layout());
  TORCH_CHECK(mat1.layout() == at::kStrided, "sampled_addmm: Expected mat1 to have strided layout, but got ",
              mat1.layout());
  TORCH_CHECK(mat2.layout() == at::kStrided, "sampled_addmm: Expected mat2 to have strided layout, but got ",
              mat2.layout());
  TORCH_CHECK(self.dense_dim() == 0, "sampled_addmm: Expected self to have 0 dense dimensions, but got ",
              self.dense_dim());
  TORCH_CHECK(mat1.scalar_type() == mat2.scalar_type(),
              "sampled_addmm: Expected mat1 and mat2 to have the same dtype, but got ", mat1.scalar_type(), " and ",
              mat2.scalar_type());
  TORCH_CHECK(mat1.scalar_type() == self.scalar_type(),
              "sampled_addmm: Expected mat1 and self to have the same dtype, but got ", mat1.scalar_type(), " and ",
              self.scalar_type());
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "sparse_sampled_addmm: Expected self to be a floating-point or complex tensor, but got ",
              self.scalar_type());
  TORCH_CHECK(mat1.dim() >= 2, "sampled_addmm: Expected mat1 to be a matrix, got ", mat1.dim(), "-D tensor");
  TORCH_CHECK(mat2.dim() >= 2, "sampled_addmm: Expected mat2 to be a matrix, got ", mat2.dim(), "-D tensor");
  const auto batch = [](const at::Tensor& x) { return x.sizes().slice(0, x.dim() - 2); };
  TORCH_CHECK(batch(mat1) == batch(mat2), "sampled_addmm: Expected mat1 and mat2 to have the same batch size, but got ",
              batch(mat1), " and ", batch(mat2));
  TORCH_CHECK(batch(self) == batch(mat1), "sampled_addmm: Expected self and mat1 to have the same batch size, but got ",
              batch(self), " and ", batch(mat1));
  TORCH_CHECK(mat1.size(-2) == self.size(-2), "sampled_addmm: self.shape[-2] and mat1.shape[-2] must match");
  TORCH_CHECK(mat2.size(-1) == self.size(-1), "sampled_addmm: self.shape[-1] and mat2.shape[-1] must match");
  TORCH_CHECK(mat1.size(-1) == mat2.size(-2), "sampled_addmm: mat1 and mat2 shapes cannot be multiplied (",
              mat1.size(-2), "x", mat1.size(-1), " and ", mat2.size(-2), "x", mat2.size(-1), ")");
}

at::Tensor sampled_addmm(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                         const at::Scalar& alpha) {
  check_sampled(self, mat1, mat2);
  const NPUGuard guard(self.device().index());
  const at::Tensor result = self.clone(), values = result.values();
  if (values.numel() == 0) return result;
  const at::ScalarType type = at::toOpMathType(self.scalar_type());
  // The batches as one dimension, before the `inner` last.
  const auto flat = [](const at::Tensor& x, int64_t inner) {
    return x.dim() == inner ? x.unsqueeze(0) : x.flatten(0, x.dim() - 1 - inner);
  };
  const at::Tensor crow = flat(self.crow_indices(), 1), col = flat(self.col_indices(), 1);
  const at::Tensor a = flat(mat1, 2).to(type), b = flat(mat2, 2).to(type);
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < crow.size(0); ++i) {
    parts.push_back(sampled(Entries(crow.select(0, i), col.select(0, i)), a.select(0, i), b.select(0, i)));
  }
  const at::Tensor product = at::stack(parts).reshape(values.sizes());
  values.copy_(sparse::add_scaled(values.to(type), product, beta, alpha));
  return result;
}

at::Tensor& sampled_addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                              const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(out.layout() == at::kSparseCsr, "sampled_addmm: Expected result to have sparse csr layout, but got ",
              out.layout());
  TORCH_CHECK(out.scalar_type() == self.scalar_type(),
              "sampled_addmm: Expected result and self to have the same dtype, but got ", out.scalar_type(), " and ",
              self.scalar_type());
  const at::Tensor made = sampled_addmm(self, mat1, mat2, beta, alpha);
  // Into the memory that out has, which others may look at; its indices keep their type.
  const auto into = [](const at::Tensor& part, const at::Tensor& result) {
    if (part.sizes() != result.sizes()) resize_tensor(part, result.sizes());
    return part.copy_(result);
  };
  const at::Tensor crow = into(out.crow_indices(), made.crow_indices());
  const at::Tensor col = into(out.col_indices(), made.col_indices());
  const at::Tensor values = into(out.values(), made.values());
  at::sparse_csr::get_sparse_csr_impl(out)->set_member_tensors(crow, col, values, made.sizes());
  return out;
}

enum class Reduce { kSum, kMean, kMax, kMin };

Reduce reduction_of(c10::string_view reduce) {
  if (reduce == "sum") return Reduce::kSum;
  if (reduce == "mean") return Reduce::kMean;
  if (reduce == "max" || reduce == "amax") return Reduce::kMax;
  if (reduce == "min" || reduce == "amin") return Reduce::kMin;
  TORCH_CHECK(reduce != "prod", "sparse_mm_reduce: reduce type of prod has not been enabled.");
  TORCH_CHECK(false, "reduce argument must be either sum, prod, mean, amax or amin, got ", reduce);
}

void check_reduced(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.layout() == at::kSparseCsr, "sparse_mm_reduce: expect self to be SparseCsr, got ", self.layout());
  TORCH_CHECK(self.dense_dim() == 0, "sparse_mm_reduce: expected non-hybrid self tensor.");
  TORCH_CHECK(self.dim() == 2, "sparse_mm_reduce: expected self to be a 2-D tensor, got ", self.dim(), "-D tensor.");
  TORCH_CHECK(other.layout() == at::kStrided && other.dim() == 2,
              "sparse_mm_reduce: expected other to be a dense 2-D tensor, got ", other.dim(), "-D and ",
              other.layout());
  TORCH_CHECK(other.scalar_type() == self.scalar_type(), "sparse_mm_reduce: expected other of type ",
              self.scalar_type(), " but found ", other.scalar_type());
  TORCH_CHECK(self.size(1) == other.size(0), "sparse_mm_reduce: mat1 and mat2 shapes cannot be multiplied (",
              self.size(0), "x", self.size(1), " and ", other.size(0), "x", other.size(1), ")");
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_floating_point(), "\"spmm_reduce_kernel\" not implemented for '",
                              self.scalar_type(), '\'');
}

at::Tensor counts_of(const at::Tensor& self) { return self.crow_indices().to(at::kLong).diff().unsqueeze(1); }

std::tuple<at::Tensor, at::Tensor> mm_reduce(const at::Tensor& self, const at::Tensor& other, c10::string_view reduce) {
  const Reduce reduction = reduction_of(reduce);
  check_reduced(self, other);
  const NPUGuard guard(self.device().index());
  const at::ScalarType type = at::toOpMathType(self.scalar_type());
  const at::Tensor values = self.values();
  const std::vector<int64_t> shape = {self.size(0), other.size(1)};
  const bool by_order = reduction == Reduce::kMax || reduction == Reduce::kMin;
  const bool wants_places = by_order && at::GradMode::is_enabled() && (self.requires_grad() || other.requires_grad());
  const at::TensorOptions index = self.col_indices().options();
  at::Tensor places = at::Tensor(other.new_empty({0}, index));
  if (wants_places) places = at::Tensor(other.new_empty(shape, index)).fill_(values.numel());
  if (values.numel() == 0) return {other.new_zeros(shape), places};
  const Entries at(self.crow_indices(), self.col_indices());
  const at::Tensor products = other.to(type).index_select(0, at.cols).mul(values.to(type).unsqueeze(1));
  at::Tensor out = at::Tensor(other.new_zeros(shape, other.options().dtype(type)));
  if (!by_order) {
    out = out.index_add(0, at.rows, products);
    if (reduction == Reduce::kMean) out = out.div(counts_of(self).clamp_min(1));
    return {out.to(other.scalar_type()), places};
  }
  const bool largest = reduction == Reduce::kMax;
  const double worst = std::numeric_limits<double>::infinity() * (largest ? -1 : 1);
  const at::Tensor rows = at.rows.unsqueeze(1).expand_as(products);
  out = out.fill_(worst).scatter_reduce(0, rows, products, largest ? "amax" : "amin", true);
  if (wants_places) {  // the first that is as large
    const at::Tensor best = out.index_select(0, at.rows);
    const at::Tensor is = products.eq(best).logical_or(products.ne(products));
    const at::Tensor entry = at::arange(values.numel(), at.rows.options()).unsqueeze(1).expand_as(products);
    const at::Tensor candidates = entry.masked_fill(is.logical_not(), values.numel());
    places = places.to(at::kLong).scatter_reduce(0, rows, candidates, "amin", true).to(index.dtype());
  }
  return {out.masked_fill(counts_of(self).eq(0), 0).to(other.scalar_type()), places};
}

std::tuple<at::Tensor, at::Tensor> mm_reduce_backward(const at::Tensor& self, const at::Tensor& grad_out,
                                                      const at::Tensor& weight, c10::string_view reduce,
                                                      const at::Tensor& arg_out, std::array<bool, 2> output_mask) {
  const Reduce reduction = reduction_of(reduce);
  check_reduced(self, weight);
  const NPUGuard guard(self.device().index());
  const at::ScalarType type = at::toOpMathType(self.scalar_type());
  const at::Tensor values = self.values().to(type), dense = weight.to(type);
  const int64_t n = values.numel();
  at::Tensor grad = grad_out.to(type), of_self, of_weight;
  if (reduction == Reduce::kMean) grad = grad.div(counts_of(self).clamp_min(1));
  at::Tensor entries = at::Tensor(values.new_zeros({n})), sums = at::Tensor(dense.new_zeros(dense.sizes()));
  if (n != 0 && (reduction == Reduce::kSum || reduction == Reduce::kMean)) {
    const Entries at(self.crow_indices(), self.col_indices());
    const at::Tensor rows = grad.index_select(0, at.rows);
    if (output_mask[0]) entries = rows.mul(dense.index_select(0, at.cols)).sum(-1);
    if (output_mask[1]) sums = sums.index_add(0, at.cols, rows.mul(values.unsqueeze(1)));
  } else if (n != 0) {
    const at::Tensor place = arg_out.to(at::kLong), none = place.eq(n);  // rows without entries
    const auto kept = [&](const at::Tensor& factor) { return grad.mul(factor).masked_fill(none, 0); };
    const at::Tensor held = place.clamp_max(n - 1);
    const at::Tensor cols = self.col_indices().to(at::kLong).take(held);
    if (output_mask[0]) entries = entries.scatter_add(0, held.flatten(), kept(dense.gather(0, cols)).flatten());
    if (output_mask[1]) sums = sums.scatter_add(0, cols, kept(values.take(held)));
  }
  if (output_mask[0]) {
    of_self = self.clone();
    of_self.values().copy_(entries);
  }
  if (output_mask[1]) of_weight = sums.to(weight.scalar_type());
  return {of_self, of_weight};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("sparse_sampled_addmm", NPU_FN(sampled_addmm));
  m.impl("sparse_sampled_addmm.out", NPU_FN(sampled_addmm_out));
  m.impl("_sparse_mm_reduce_impl", NPU_FN(mm_reduce));
  m.impl("_sparse_mm_reduce_impl_backward", NPU_FN(mm_reduce_backward));
}

}  // namespace npu
