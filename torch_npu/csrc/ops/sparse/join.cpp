#include "csrc/ops/sparse/join.h"

#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace npu::sparse {

at::Tensor keys(const at::Tensor& indices, at::IntArrayRef sizes) {
  if (indices.size(0) == 0) return at::zeros({indices.size(1)}, indices.options().dtype(at::kLong));
  at::Tensor flat = indices.select(0, 0).to(at::kLong);
  for (int64_t d = 1; d < indices.size(0); ++d) flat = flat.mul(sizes[d]).add(indices.select(0, d));
  return flat.contiguous();
}

Found look_up(const at::Tensor& sorted, const at::Tensor& keys) {
  if (sorted.numel() == 0) return {at::zeros_like(keys), at::zeros(keys.sizes(), keys.options().dtype(at::kBool))};
  const at::Tensor place = at::searchsorted(sorted, keys).clamp_max(sorted.numel() - 1);
  return {place, sorted.index_select(0, place).eq(keys)};
}

Pairs join(const at::Tensor& left, const at::Tensor& right) {
  const auto [sorted, order] = at::sort(right);
  const at::Tensor begin = at::searchsorted(sorted, left);
  const at::Tensor count = at::searchsorted(sorted, left, false, /*right=*/true).sub(begin);
  const at::Tensor from = at::repeat_interleave(at::arange(left.numel(), left.options()), count);
  const at::Tensor first = begin.sub(count.cumsum(0).sub(count));  // where its pairs begin, less those before it
  const at::Tensor place = at::arange(from.numel(), left.options()).add(first.index_select(0, from));
  return {from, order.index_select(0, place)};
}

at::Tensor weighted(const at::Tensor& values, const at::Tensor& weight) {
  std::vector<int64_t> shape(values.dim(), 1);
  shape[0] = weight.numel();
  return values.mul(weight.to(values.scalar_type()).reshape(shape));
}

at::Tensor coo(const at::Tensor& like, at::IntArrayRef sizes, const at::Tensor& indices, const at::Tensor& values,
               bool coalesced) {
  return at::_sparse_coo_tensor_with_dims_and_tensors(
      indices.size(0), static_cast<int64_t>(sizes.size()) - indices.size(0), sizes, indices, values,
      like.options().dtype(values.scalar_type()), coalesced);
}

void give(const at::Tensor& result, const at::Tensor& out) {
  at::SparseTensorImpl* impl = at::sparse::get_sparse_impl(out);
  impl->raw_resize_(result.sparse_dim(), result.dense_dim(), result.sizes());
  impl->set_indices_and_values_unsafe(result._indices(), result._values().to(out.scalar_type()));
  impl->set_coalesced(result.is_coalesced());
}

void check_cast(const char* op, at::ScalarType common, at::ScalarType out) {
  TORCH_CHECK(at::canCast(common, out), op, ": Can't convert result type ", common, " to output ", out);
}

}  // namespace npu::sparse
