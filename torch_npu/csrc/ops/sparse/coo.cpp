// COO tensors: entries of one place added up, sums and products of two, masks, sums' gradients, selection. Long because these are
// one family over join.h: what PyTorch has a kernel for by device (tools/codegen/sparse.py registers the rest). Everything
// stays on the device; the number of entries of a result is read back, as a tensor's shape has to be known.
#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/_sparse_mask_projection_native.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/sparse_mask_native.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/sparse/join.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

using sparse::coo;
using sparse::keys;

std::vector<int64_t> with_first(at::IntArrayRef sizes, int64_t first) {
  std::vector<int64_t> out = sizes.vec();
  out[0] = first;
  return out;
}

at::Tensor coalesce(const at::Tensor& self) {
  TORCH_INTERNAL_ASSERT(!self.is_coalesced());
  const NPUGuard guard(self.device().index());
  if (self._nnz() < 2) return self.clone()._coalesced_(true);
  const at::Tensor indices = self._indices(), values = self._values();
  const auto [unique, inverse, counts] = at::_unique2(keys(indices, self.sizes()), true, true);
  at::Tensor sums = at::zeros(with_first(values.sizes(), unique.numel()), values.options());
  const bool is_bool = values.scalar_type() == at::kBool;  // any of them
  if (is_bool) sums = sums.to(at::kInt);
  sums.index_add_(0, inverse, is_bool ? values.to(at::kInt) : values);
  at::Tensor one = at::empty({unique.numel()}, indices.options());  // of each place, one entry that stands there
  one.scatter_(0, inverse, at::arange(inverse.numel(), one.options()));
  return coo(self, self.sizes(), indices.index_select(1, one), is_bool ? sums.ne(0) : sums, true);
}

at::Tensor& add_to_dense(const at::Tensor& dense, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  TORCH_CHECK(!out.is_sparse(), "add: expected 'out' to be a dense tensor, as 'self' is");
  TORCH_CHECK(dense.sizes().equals(other.sizes()),
              "add: expected 'self' and 'other' to have same size, but self has size ", dense.sizes(),
              " while other has size ", other.sizes(),
              " (FYI: op2-sparse addition does not currently support broadcasting)");
  const at::ScalarType common = at::promoteTypes(dense.scalar_type(), other.scalar_type());
  sparse::check_cast("add", common, out.scalar_type());
  if (!out.is_same(dense)) resize_out(out, dense.sizes());
  const at::Tensor values = other._values().to(common);
  const int64_t dims = other.sparse_dim();
  const bool in_place = out.is_same(dense) && out.scalar_type() == common && out.is_contiguous() && common != at::kBool;
  const at::ScalarType type = common == at::kBool ? at::kInt : common;
  at::Tensor sum = in_place ? out : dense.to(type, false, /*copy=*/true).contiguous();
  if (values.numel() > 0) {
    std::vector<int64_t> shape = with_first(values.sizes(), c10::multiply_integers(dense.sizes().slice(0, dims)));
    sum.view(shape).index_add_(0, keys(other._indices(), other.sizes()), values.to(type), alpha);
  }
  if (!in_place) out.copy_(type == common ? sum : sum.ne(0));
  return out;
}

at::Tensor& add_coo_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  const NPUGuard guard(self.device().index());
  if (!self.is_sparse()) return add_to_dense(self, other, alpha, out);
  TORCH_CHECK(other.is_sparse() && out.is_sparse(),
              "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  TORCH_CHECK(self.sizes().equals(other.sizes()), "add: expected sizes of 'self' and 'other' to match, but ",
              self.sizes(), " != ", other.sizes());
  TORCH_CHECK(at::sparse::is_same_density(self, other),
              "add: expected 'self' and 'other' to have same density, but 'self' has ", self.sparse_dim(),
              " sparse dimensions while 'other' has ", other.sparse_dim(), " sparse dimensions");
  const at::ScalarType common = at::promoteTypes(self.scalar_type(), other.scalar_type());
  sparse::check_cast("add", common, out.scalar_type());
  at::Tensor added = other._values().to(common);
  if (!alpha.equal(1)) added = added.mul(alpha).to(common);
  const bool coalesced = self.is_coalesced() && other.is_coalesced();
  const std::vector<at::Tensor> indices = {self._indices(), other._indices()};
  const std::vector<at::Tensor> values = {self._values().to(common), added};
  const at::Tensor all = coo(self, self.sizes(), at::cat(indices, 1), at::cat(values, 0), false);
  sparse::give(coalesced ? all.coalesce() : all, out);
  return out;
}

// Products of entries of one place; numbers and dense operands are PyTorch's composition.
at::Tensor& mul_out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
  const NPUGuard guard(self.is_sparse() ? self.device().index() : other.device().index());
  if (!self.is_sparse() || !other.is_sparse() || self.dim() == 0 || other.dim() == 0)
    return at::native::mul_out_sparse_cpu(self, other, out);
  const at::ScalarType common = at::promoteTypes(self.scalar_type(), other.scalar_type());
  sparse::check_cast("mul", common, out.scalar_type());
  const int64_t dims = self.sparse_dim();
  TORCH_CHECK(dims == other.sparse_dim() && self.sizes().slice(0, dims).equals(other.sizes().slice(0, dims)),
              "mul: expected 'self' and 'other' to have same sparse sizes, but ", self.sizes(), " with ", dims,
              " sparse dimensions and ", other.sizes(), " with ", other.sparse_dim(), " do not");
  const std::vector<int64_t> sizes = at::infer_size(self.sizes(), other.sizes());
  const at::Tensor a = self.coalesce(), b = other.coalesce();
  const auto [left, right] = sparse::join(keys(a._indices(), a.sizes()), keys(b._indices(), b.sizes()));
  at::Tensor x = a._values().index_select(0, left), y = b._values().index_select(0, right);
  while (x.dim() < y.dim()) x = x.unsqueeze(1);
  while (y.dim() < x.dim()) y = y.unsqueeze(1);
  sparse::give(coo(self, sizes, a._indices().index_select(1, left), x.to(common).mul(y.to(common)), true), out);
  return out;
}

bool both_have_entries(const at::Tensor& a, const at::Tensor& b) {
  return a.layout() == at::kSparse && a.sizes().equals(b.sizes()) && !a.is_same(b) && a.numel() && a._nnz() && b._nnz();
}

at::Tensor sparse_mask(const at::Tensor& self, const at::Tensor& mask) {
  const NPUGuard guard(self.device().index());
  if (!both_have_entries(self, mask)) return at::native::sparse_mask(self, mask);
  TORCH_CHECK(self.sparse_dim() == mask.sparse_dim(), "sparse_mask(): expected as many sparse dimensions of self (",
              self.sparse_dim(), ") as of mask (", mask.sparse_dim(), ")");
  const at::Tensor a = self.coalesce();
  const auto [place, is] = sparse::look_up(keys(a._indices(), a.sizes()), keys(mask._indices(), mask.sizes()));
  return coo(self, mask.sizes(), mask._indices().clone(), sparse::weighted(a._values().index_select(0, place), is),
             mask.is_coalesced());
}

// Of each entry of self its value where the mask has an entry, once or as often as it has some, and else zero.
at::Tensor mask_projection(const at::Tensor& self, const at::Tensor& mask, bool accumulate) {
  const NPUGuard guard(self.device().index());
  if (!both_have_entries(self, mask)) return at::native::sparse_mask_projection(self, mask, accumulate);
  TORCH_CHECK(self.sparse_dim() == mask.sparse_dim(),
              "_sparse_mask_projection(): expected as many sparse dimensions of self (", self.sparse_dim(),
              ") as of mask (", mask.sparse_dim(), ")");
  const auto [unique, inverse, counts] = at::_unique2(keys(mask._indices(), mask.sizes()), true, false, true);
  const auto [place, is] = sparse::look_up(unique, keys(self._indices(), self.sizes()));
  const at::Tensor weight = accumulate ? counts.index_select(0, place).mul(is) : is;
  return coo(self, self.sizes(), self._indices().clone(), sparse::weighted(self._values(), weight),
             self.is_coalesced());
}

at::Tensor sum_backward(const at::Tensor& grad_, const at::Tensor& self, at::IntArrayRef dims) {
  const NPUGuard guard(self.device().index());
  if ((grad_.is_sparse() && !grad_._nnz()) || grad_.numel() == 0) return at::zeros_like(self);
  const at::Tensor input = self.coalesce(), indices = input._indices(), values = input._values();
  const int64_t sparse_dims = input.sparse_dim();
  const auto summed = at::dim_list_to_bitset(dims, input.dim());
  std::vector<int64_t> kept, kept_sizes;
  for (int64_t d = 0; d < sparse_dims; ++d) {
    if (summed[d]) continue;
    kept.push_back(d);
    kept_sizes.push_back(input.size(d));
  }
  // Values of the gradient with the dense dimensions that were summed put back, one row for each entry of the gradient.
  at::Tensor rows;
  const at::Tensor grad = grad_.is_sparse() ? grad_.coalesce() : grad_;
  TORCH_CHECK(kept.empty() != grad.is_sparse(), "_sparse_sum_backward: expected grad Tensor to be ",
              kept.empty() ? "dense since all sparse dims are summed" : "sparse, as sparse dims are left");
  rows = grad.is_sparse() ? grad._values() : grad.unsqueeze(0);
  for (int64_t d = sparse_dims; d < input.dim(); ++d) {
    if (summed[d]) rows = rows.unsqueeze(d - sparse_dims + 1);
  }
  rows = rows.expand(with_first(values.sizes(), rows.size(0)));
  if (kept.empty()) return coo(input, input.sizes(), indices.clone(), rows.expand(values.sizes()).clone(), true);
  std::vector<at::Tensor> parts;
  for (const int64_t d : kept) parts.push_back(indices.narrow(0, d, 1));
  const auto [place, is] = sparse::look_up(keys(grad._indices(), kept_sizes), keys(at::cat(parts), kept_sizes));
  return coo(input, input.sizes(), indices.clone(), sparse::weighted(rows.index_select(0, place), is), true);
}

at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  const NPUGuard guard(self.device().index());
  TORCH_CHECK_INDEX(self.dim() > 0, "index_select() cannot be applied to a 0-dim tensor.");
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.dim() == 1 && (index.scalar_type() == at::kLong || index.scalar_type() == at::kInt),
                    "index_select() argument index must be 1-D integer tensor.");
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes[dim] = index.numel();
  const int64_t dims = self.sparse_dim();
  if (dim >= dims) {
    return coo(self, sizes, self._indices(), self._values().index_select(dim - dims + 1, index), self.is_coalesced());
  }
  at::Tensor place = index.to(at::kLong);
  if (index.numel() > 0) {  // one look at all, as the CPU has for each
    TORCH_CHECK_INDEX(place.ge(self.size(dim)).logical_or(place.lt(-self.size(dim))).any().item<bool>() == false,
                      "index_select(): index contains an index that is out of range for dimension of size ",
                      self.size(dim));
  }
  place = place.remainder(std::max<int64_t>(self.size(dim), 1));
  const auto [to, from] = sparse::join(place, self._indices().select(0, dim).contiguous());
  at::Tensor indices = self._indices().index_select(1, from).contiguous();
  indices.select(0, dim).copy_(to);
  const bool sorted = dim == 0 && self.is_coalesced();
  return coo(self, sizes, indices, self._values().index_select(0, from), sorted);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("_coalesce", TORCH_FN(coalesce));
  m.impl("add.out", NPU_FN(add_coo_out));
  m.impl("mul.out", TORCH_FN(mul_out));
  m.impl("sparse_mask", NPU_FN(sparse_mask));
  m.impl("_sparse_mask_projection", NPU_FN(mask_projection));
  m.impl("_sparse_sum_backward", NPU_FN(sum_backward));
  m.impl("index_select", NPU_FN(index_select));
}

}  // namespace npu
