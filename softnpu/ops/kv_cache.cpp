// Rows into caches and out of them.
#include "softnpu/ops/kv_cache.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/bits.h"
#include "softnpu/ops/rounded.h"
#include "softnpu/ops/rows_within.h"

namespace softnpu::ops::kernels {
namespace {

// [blocks, rows, parts, part] of either layout: a view.
Tensor by_rows(const Tensor& cache, std::string_view mode) {
  TORCH_CHECK_NOT_IMPLEMENTED(mode.empty() || mode == "Norm" || mode == "PA_NZ", "a cache in the mode ",
                              std::string(mode), " is not implemented; Norm and PA_NZ are");
  TORCH_CHECK(cache.dim() == 4, "a cache has four dimensions, not ", cache.dim());
  return mode == "PA_NZ" ? cache.permute({0, 2, 1, 3}) : cache;
}

}  // namespace

void cache_write(const Tensor& of, const Tensor& slots, std::string_view mode, Tensor& cache) {
  if (!cache.defined() || cache.numel() == 0) return;
  const Tensor rows = moved_bits(of);
  TORCH_CHECK_NOT_IMPLEMENTED(rows.dim() == 3 || rows.dim() == 2, "rows of ", rows.dim(), " dimensions in a cache");
  const Tensor view = by_rows(moved_bits(cache), mode);
  const Tensor all = slots.flatten().to(at::kLong), kept = all.ge(0).nonzero().squeeze(1);
  const Tensor slot = all.index_select(0, kept);
  TORCH_CHECK(rows.size(0) == all.numel(), rows.size(0), " rows and ", all.numel(), " slots of a cache");
  const Tensor values = rows.index_select(0, kept).reshape({kept.numel(), view.size(2), view.size(3)});
  Tensor place = view;
  place.index_put_({slot.floor_divide(view.size(1)), slot.remainder(view.size(1))}, values.to(view.scalar_type()));
}

void cache_read(const Tensor& cache, const Tensor& tables, const Tensor& lengths, const OptionalTensor& offset,
                std::string_view mode, bool running, Tensor& rows) {
  const Tensor view = by_rows(moved_bits(cache), mode);
  const int64_t block = view.size(1), count = rows.size(0), columns = view.size(2) * view.size(3);
  Tensor length = lengths.flatten().to(at::kLong);
  if (running) length = length.diff();
  const int64_t batch = length.numel();
  TORCH_CHECK(tables.dim() == 2 && tables.size(0) >= batch && block > 0, "block tables of ", tables.sizes(), " for ",
              batch, " sequences");
  TORCH_CHECK(batch == 0 || (length.min().item<int64_t>() >= 0 && length.max().item<int64_t>() <= count &&
                             length.sum().item<int64_t>() <= count),
              "sequences of ", length, " rows do not fit ", count, " rows of the result");
  const Tensor of_row = at::arange(batch, length.options()).repeat_interleave(length);
  const Tensor used = of_row.narrow(0, 0, std::min(count, of_row.numel()));
  const Tensor starts = length.cumsum(0) - length;
  const Tensor position = at::arange(used.numel(), length.options()) - starts.index_select(0, used);
  Tensor entry = position.floor_divide(block);
  if (given(offset)) entry = entry + offset->flatten().to(at::kLong).floor_divide(block).index_select(0, used);
  const Tensor known = entry.lt(tables.size(1)).logical_and(entry.ge(0));
  Tensor id = tables.to(at::kLong).index({used, at::where(known, entry, 0)});
  const Tensor there = known.logical_and(id.ge(0)).logical_and(id.lt(view.size(0)));
  const Tensor values = view.index({at::where(there, id, 0), position.remainder(block)}).reshape({-1, columns});
  Tensor out = at::zeros({count, columns}, view.options());
  out.narrow(0, 0, used.numel()).copy_(values.masked_fill(there.logical_not().unsqueeze(1), 0));
  put_bits(rows, out.reshape(rows.sizes()));
}

void scatter_update(Tensor& data, const Tensor& indices, const Tensor& updates, int64_t axis) {
  const int64_t along = axis < 0 ? axis + data.dim() : axis;
  TORCH_CHECK(updates.dim() == data.dim() && along >= 0 && along < data.dim(), "aclnnInplaceScatterUpdate: data of ",
              data.sizes(), ", updates of ", updates.sizes(), ", axis ", axis);
  const Tensor at = indices.to(at::kLong).contiguous();
  const int64_t size = updates.size(along);
  const auto put_at = [&](const Tensor& place, int64_t start, const Tensor& value, int64_t dim) {
    check_rows_within(start, size, along, place.size(dim));
    const Tensor target = place.narrow(dim, start, size);
    TORCH_CHECK(target.sizes() == value.sizes(), "aclnnInplaceScatterUpdate: updates of ", updates.sizes(),
                " do not fit data of ", data.sizes(), " along ", axis);
    target.copy_(value);
  };
  if (at.dim() == 0) return put_at(data, at.item<int64_t>(), updates, along);
  TORCH_CHECK(along > 0 && at.dim() <= 2 && at.size(0) <= updates.size(0), "aclnnInplaceScatterUpdate: indices of ",
              at.sizes(), " for updates of ", updates.sizes());
  TORCH_CHECK(at.dim() == 1 || at.size(1) == 2, "aclnnInplaceScatterUpdate: indices of ", at.sizes(),
              " are not pairs of batch and offset");
  for (int64_t i = 0; i < at.size(0); i++) {
    const int64_t batch = at.dim() == 2 ? at[i][0].item<int64_t>() : i;
    const int64_t start = at.dim() == 2 ? at[i][1].item<int64_t>() : at[i].item<int64_t>();
    check_rows_within(batch, 1, 0, data.size(0));
    put_at(data[batch], start, updates[i], along - 1);
  }
}

void scatter_list(at::TensorList data, const Tensor& indices, const Tensor& updates, const OptionalTensor& mask,
                  std::string_view reduce, int64_t axis) {
  TORCH_CHECK_NOT_IMPLEMENTED(reduce == "update", "aclnnScatterList: reduce ", std::string(reduce),
                              " is not implemented; update is");
  const Tensor at = indices.to(at::kLong).contiguous();
  TORCH_CHECK(at.dim() == 1 && at.numel() == int64_t(data.size()) && updates.size(0) == at.numel() &&
                  (!given(mask) || mask->numel() == at.numel()),
              "aclnnScatterList: ", data.size(), " tensors, indices of ", at.sizes(), ", updates of ", updates.sizes(),
              ", a mask of ", given(mask) ? mask->numel() : at.numel());
  for (size_t i = 0; i < data.size(); i++) {
    if (given(mask) && !mask->flatten()[i].item<bool>()) continue;
    const Tensor value = updates[i];
    const int64_t along = axis < 0 ? axis + value.dim() : axis, start = at[i].item<int64_t>();
    TORCH_CHECK(along >= 0 && along < value.dim() && value.dim() == data[i].dim(), "aclnnScatterList: axis ", axis,
                " of updates of ", updates.sizes());
    check_rows_within(start, value.size(along), along, data[i].size(along));
    const Tensor target = data[i].narrow(along, start, value.size(along));
    TORCH_CHECK(target.sizes() == value.sizes(), "aclnnScatterList: updates of ", updates.sizes(),
                " do not fit a tensor of ", data[i].sizes());
    target.copy_(value);
  }
}

void need_scatter_rounding(std::string_view mode, const Tensor& data) {
  const std::string_view wanted = is_hifloat8(data) ? "round" : "rint";
  TORCH_CHECK_NOT_IMPLEMENTED(mode == wanted, "aclnnInplaceQuantScatterV2: roundMode ", mode,
                              " is not implemented for selfRef of ", data.scalar_type(), "; ", wanted, " is");
}

void quant_scatter(Tensor& data, const Tensor& indices, const Tensor& updates, const Tensor& scales,
                   const OptionalTensor& zero_points, int64_t axis, int64_t quant_axis, int64_t reduction) {
  TORCH_CHECK_NOT_IMPLEMENTED(reduction == 1, "aclnnInplaceQuantScatter: reduction ", reduction, " is not update");
  TORCH_CHECK(updates.dim() > 0 && (quant_axis == -1 || quant_axis == updates.dim() - 1),
              "aclnnInplaceQuantScatter: the scales lie along the last dimension, not ", quant_axis);
  Tensor value = wide(updates) / wide(scales).flatten();
  if (at::isIntegralType(data.scalar_type(), false)) value = value.round();
  if (given(zero_points)) value = value + wide(*zero_points).flatten();
  Tensor rounded = at::empty(updates.sizes(), data.options());
  put_rounded(rounded, value);
  Tensor place = moved_bits(data);
  scatter_update(place, indices, moved_bits(rounded), axis);
}

}  // namespace softnpu::ops::kernels
