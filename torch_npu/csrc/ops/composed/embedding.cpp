// Bags of embeddings: sums, means and maxima of rows of a table, by aclnnEmbeddingBag, and composed for double weights, which it does
// not take; their gradients, for which CANN has no function. Nothing is read back. Who calls it: PyTorch's dispatcher.
#include <ATen/OpMathType.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_embedding_bag_backward_native.h>
#include <ATen/ops/arange.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/device_check.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
constexpr int64_t kSum = 0, kMean = 1, kMax = 2;

// Which indices count.
at::Tensor used(const at::Tensor& index, int64_t padding) { return padding < 0 ? index.eq(index) : index.ne(padding); }

using Bags = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Bags composed_bags(const at::Tensor& weight, const at::Tensor& index, const at::Tensor& begin, int64_t mode,
                   const OptionalTensor& weights, int64_t padding_idx) {
  const int64_t n = index.size(0), bags = begin.size(0), width = weight.size(1);
  const at::Tensor starts = index.new_zeros({n + 1}).index_add(0, begin, begin.mul(0).add(1));
  const at::Tensor bag = starts.slice(0, 0, n).cumsum(0).sub(1);
  const at::Tensor valid = used(index, padding_idx);
  const at::Tensor sizes = index.new_zeros({bags}).index_add(0, bag, valid.to(at::kLong));
  at::Tensor rows = weight.index_select(0, index);
  if (weights) rows = rows.mul(weights->unsqueeze(1));
  const at::Tensor dropped = valid.logical_not().unsqueeze(1), none = rows.new_zeros({bags, width});
  at::Tensor result, largest = index.new_zeros(mode == kMax ? at::IntArrayRef({bags, width}) : at::IntArrayRef({bags}));
  if (mode == kMax) {
    // As the CPU, which takes a number where it is greater than those before: one that is none wins where it is a bag's first,
    // and nowhere else.
    const at::Tensor each = bag.unsqueeze(1).expand({n, width}), order = at::arange(n, index.options());
    const at::Tensor begins =
        sizes.mul(0).add(n).scatter_reduce(0, bag, order.masked_fill(valid.logical_not(), n), "amin", true);
    const at::Tensor is_nan = rows.ne(rows), is_first = order.eq(begins.index_select(0, bag)).unsqueeze(1);
    const at::Tensor candidates =
        rows.masked_fill(dropped.logical_or(is_nan.logical_and(is_first.logical_not())), -INFINITY);
    const at::Tensor empty = sizes.eq(0).unsqueeze(1);
    result = none.scatter_reduce(0, each, candidates, "amax", false).masked_fill(empty, 0);
    const at::Tensor place = order.unsqueeze(1).expand({n, width});
    const at::Tensor is_largest =
        rows.eq(result.gather(0, each)).logical_or(is_nan.logical_and(is_first)).logical_and(dropped.logical_not());
    const at::Tensor first =
        largest.add(n).scatter_reduce(0, each, place.masked_fill(is_largest.logical_not(), n), "amin", true);
    if (n > 0) largest = index.take(first.clamp_max(n - 1)).masked_fill(empty, 0);
  } else {
    result = none.index_add(0, bag, rows.masked_fill(dropped, 0));
    if (mode == kMean) result = result.div(sizes.clamp_min(1).unsqueeze(1));
  }
  return {result, bag, sizes, largest};
}

Bags embedding_bag(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
                   bool scale_grad_by_freq, int64_t mode, bool sparse, const OptionalTensor& per_sample_weights,
                   bool include_last_offset, int64_t padding_idx) {
  TORCH_CHECK(indices.dim() == 1 && offsets.dim() == 1,
              "embedding_bag: input and offsets have to be 1D Tensors, but got "
              "Tensors of dimension ",
              indices.dim(), " and ", offsets.dim());
  TORCH_CHECK(weight.dim() == 2, "embedding_bag: weight has to be a 2D Tensor, but got Tensor of dimension ",
              weight.dim());
  TORCH_CHECK(!include_last_offset || offsets.size(0) >= 1,
              "include_last_offset: number of offset should be at least 1");
  const bool weighted = per_sample_weights && per_sample_weights->defined();
  TORCH_CHECK(!weighted || mode == kSum, "embedding_bag: per_sample_weights only supported with mode='sum'");
  const NPUGuard guard(weight.device().index());
  const OptionalTensor weights = weighted ? OptionalTensor(per_sample_weights->to(weight.scalar_type())) : std::nullopt;
  const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0), width = weight.size(1);
  if (weight.scalar_type() == at::kDouble)
    return composed_bags(weight, indices.to(at::kLong), offsets.to(at::kLong).slice(0, 0, bags), mode, weights,
                         padding_idx);
  const at::ScalarType type = c10::promoteTypes(indices.scalar_type(), offsets.scalar_type());
  const at::Tensor result = empty({bags, width}, weight.scalar_type()), bag = empty(indices.sizes(), type),
                   sizes = empty({bags}, type);
  const at::Tensor largest = mode == kMax ? empty({bags, width}, type) : empty({bags}, type);
  ACLNN(aclnnEmbeddingBag)(weight, indices.to(type), offsets.to(type), scale_grad_by_freq, mode, sparse, weights,
                           include_last_offset, padding_idx, result, bag, sizes, largest);
  return {result, bag, sizes, largest};
}

at::Tensor dense_backward(const at::Tensor& grad, const at::Tensor& indices, const at::Tensor& offset2bag,
                          const at::Tensor& bag_size, const at::Tensor& maximum_indices, int64_t num_weights,
                          bool scale_grad_by_freq, int64_t mode, const OptionalTensor& per_sample_weights,
                          int64_t padding_idx) {
  const NPUGuard guard(grad.device().index());
  const at::Tensor sums = grad.to(at::toOpMathType(grad.scalar_type()));
  const at::Tensor result = sums.new_zeros({num_weights, grad.size(1)});
  if (mode == kMax) {
    const at::Tensor empty = bag_size.eq(0).unsqueeze(1), given = sums.masked_fill(empty, 0);
    const at::Tensor rows = maximum_indices.masked_fill(empty, 0).to(at::kLong);
    return result.scatter_add(0, rows, given).to(grad.scalar_type());
  }
  const at::Tensor index = indices.to(at::kLong), bag = offset2bag.to(at::kLong);
  at::Tensor given = sums.index_select(0, bag);
  if (mode == kMean) given = given.div(bag_size.clamp_min(1).index_select(0, bag).unsqueeze(1));
  if (per_sample_weights && per_sample_weights->defined())
    given = given.mul(per_sample_weights->to(sums.scalar_type()).unsqueeze(1));
  if (scale_grad_by_freq) {
    const at::Tensor counts = index.new_zeros({num_weights}).index_add(0, index, index.mul(0).add(1));
    given = given.div(counts.index_select(0, index).unsqueeze(1));
  }
  given = given.masked_fill(used(index, padding_idx).logical_not().unsqueeze(1), 0);
  return result.index_add(0, index, given).to(grad.scalar_type());
}

at::Tensor weights_backward(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& indices,
                            const at::Tensor&, const at::Tensor& offset2bag, int64_t mode, int64_t padding_idx) {
  TORCH_CHECK(mode == kSum, "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  const NPUGuard guard(grad.device().index());
  const at::Tensor index = indices.to(at::kLong), rows = wide(weight.index_select(0, index));
  const at::Tensor result = rows.mul(wide(grad).index_select(0, offset2bag.to(at::kLong))).sum(1);
  return result.masked_fill(used(index, padding_idx).logical_not(), 0).to(grad.scalar_type());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_embedding_bag", NPU_FN(embedding_bag));
  m.impl("_embedding_bag_forward_only", NPU_FN(embedding_bag));
  m.impl("_embedding_bag_backward", TORCH_FN(at::native::_embedding_bag_backward_symint));  // chooses dense or sparse
  m.impl("_embedding_bag_dense_backward", NPU_FN(dense_backward));
  m.impl("_embedding_bag_per_sample_weights_backward", NPU_FN(weights_backward));
}

}  // namespace npu
