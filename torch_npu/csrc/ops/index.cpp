// Advanced indexing: index, index_put, nonzero, masked_select, take's inverse and searches with a result of unknown size.
// What it is not: index_select, gather, scatter (rows of ops/aten.yaml) or slicing (views).
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/List.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/TensorAdvancedIndexingUtils.h>
#include <ATen/ops/index_meta.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/dynamic.h"
#include "csrc/ops/storage.h"
#include "csrc/ops/structured.h"

namespace npu {
namespace {

using Indices = c10::List<std::optional<at::Tensor>>;

// Indices as aclnn wants them: on self's device, masks turned into coordinates, an empty tensor where a dimension is whole.
struct Expanded {
  Indices optional;
  std::vector<at::Tensor> list;
  bool empty = false;  // some index selects nothing
};

void check_devices(const at::Tensor& self, const Indices& indices) {
  for (const std::optional<at::Tensor>& index : indices) {
    TORCH_CHECK(!index || !index->defined() || index->is_cpu() || index->device() == self.device(),
                "indices should be either on cpu or on the same device as the indexed tensor (", self.device(),
                "), one is on ", index->device(), "; move it with .", self.is_privateuseone() ? "npu" : "cpu", "()");
  }
}

Expanded expand(const at::Tensor& self, const Indices& indices) {
  Indices here;
  for (const std::optional<at::Tensor>& index : indices) {
    here.push_back(index && index->defined() && index->device() != self.device() ? index->to(self.device()) : index);
  }
  Expanded result;
  for (at::Tensor& index : at::native::expandTensors(self, here)) {
    if (!index.defined()) {
      result.optional.push_back(std::nullopt);
      result.list.push_back(npu::empty({0}, at::kLong));
    } else {
      result.empty = result.empty || index.numel() == 0;
      result.optional.push_back(index);
      result.list.push_back(std::move(index));
    }
  }
  return result;
}

template <class Op>
void run_index(Op& op, const at::Tensor& self, const Indices& indices) {
  TORCH_CHECK_INDEX(indices.size() <= static_cast<size_t>(self.dim()), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", indices.size(), ")");
  const Expanded expanded = expand(self, indices);
  op.meta(self, expanded.optional);
  if (op.has_elements()) ACLNN(aclnnIndex)(self, expanded.list, op.output(0));
}

at::Tensor index(const at::Tensor& self, const Indices& indices) {
  check_devices(self, indices);
  const NPUGuard guard(self.device().index());
  Structured<at::meta::structured_index_Tensor, 1> op;
  run_index(op, self, indices);
  return op.take(0);
}

at::Tensor& index_out(const at::Tensor& self, const Indices& indices, at::Tensor& out) {
  check_devices(self, indices);
  TORCH_CHECK(self.is_privateuseone(),
              "Expected all tensors to be on the same device, but found at least two devices, ",
              "the indexed tensor on ", self.device(), " and out on ", out.device(), "; move one of them");
  const NPUGuard guard(self.device().index());
  Structured<at::meta::structured_index_Tensor, 1> op(Outputs::kGiven, out);
  run_index(op, self, indices);
  return out;
}

// The shape of self[indices], which values must broadcast to. The indices are coordinates or undefined, a dimension each.
c10::DimVector selected_sizes(const at::Tensor& self, const Indices& indices) {
  c10::DimVector common, sizes;
  size_t first = 0, last = 0, count = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::optional<at::Tensor> index = indices[i];
    if (!index) continue;
    common = at::infer_size_dimvector(common, index->sizes());
    if (count++ == 0) first = i;
    last = i;
  }
  const bool adjacent = count == 0 || last - first + 1 == count;  // else the indexed dimensions come first
  const auto is_indexed = [&](size_t i) { return i < indices.size() && indices[i].has_value(); };
  if (!adjacent) sizes = common;
  for (size_t i = 0; i < static_cast<size_t>(self.dim()); ++i) {
    if (!is_indexed(i)) {
      sizes.push_back(self.size(static_cast<int64_t>(i)));
    } else if (adjacent && i == first) {
      sizes.append(common.begin(), common.end());
    }
  }
  return sizes;
}

at::Tensor& index_put(at::Tensor& self, const Indices& indices, const at::Tensor& values, bool accumulate,
                      bool unsafe) {
  TORCH_CHECK_INDEX(indices.size() <= static_cast<size_t>(self.dim()), "too many indices for tensor of dimension ",
                    self.dim(), " (got ", indices.size(), ")");
  check_devices(self, indices);
  TORCH_CHECK(self.scalar_type() == values.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", values.scalar_type(), " for the source.");
  TORCH_CHECK(values.device() == self.device() || (values.is_cpu() && values.dim() == 0),
              "Expected all tensors to be on the same device, but found at least two devices, ", self.device(), " and ",
              values.device(), "!");
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) {
    TORCH_WARN(
        "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation. "
        "This also applies to advanced indexing e.g. tensor[indices] = tensor");
  }
  at::assert_no_overlap(self, values);
  const NPUGuard guard(self.device().index());
  if (!accumulate && values.dim() == 0) {  // a mask and a number: no coordinates, no synchronization
    // The number of `x[mask] = 1` comes on the device, and ATen asks for one of the CPU.
    const at::Tensor number =
        values.is_cpu() ? values : at::Tensor(at::detail::empty_cpu({}, values.scalar_type(), {}, {}, {}, {}));
    const auto [possible, mask] = at::native::canDispatchToMaskedFill(self, indices, number);
    if (possible && mask.scalar_type() == at::kBool) {  // masked_fill_ takes no mask of bytes
      return values.is_cpu() ? self.masked_fill_(mask, values.item()) : self.masked_fill_(mask, values);
    }
  }
  for (const std::optional<at::Tensor>& index : indices)
    if (index && index->defined()) at::assert_no_overlap(self, *index);
  const Expanded expanded = expand(self, indices);
  const c10::DimVector selected = selected_sizes(self, expanded.optional);
  TORCH_CHECK(at::is_expandable_to(values.sizes(), selected), "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", at::IntArrayRef(selected));
  if (expanded.empty) return self;
  for (size_t i = 0; self.numel() == 0 && i < expanded.optional.size(); ++i) {
    const std::optional<at::Tensor> one = expanded.optional[i];
    TORCH_CHECK_INDEX(!one || self.size(static_cast<int64_t>(i)) > 0,
                      "index is out of bounds for dimension with size 0");
  }
  if (self.numel() == 0 || values.numel() == 0) return self;
  ACLNN(aclnnIndexPutImpl)(Repeated{self}, expanded.list, values, accumulate, unsafe);
  return self;
}

at::Tensor find_nonzero(const at::Tensor& self) {
  const NPUGuard guard(self.device().index());
  if (self.numel() == 0) return empty({0, self.dim()}, at::kLong);
  const DynamicOutput out({self.numel(), self.dim()}, at::kLong);
  ACLNN(aclnnNonzero)(self, out);
  synchronize_current_stream();
  return out.take();
}

// A column for each dimension, one after the other in memory, as PyTorch's meta function says.
at::Tensor nonzero(const at::Tensor& self) {
  const at::Tensor found = find_nonzero(self);
  return found.size(1) > 1 ? found.t().contiguous().t() : found;
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "Expected object of scalar type Long as out, but got ",
              out.scalar_type());
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  const at::Tensor result = find_nonzero(self);
  resize_out(out, result.sizes());
  return out.copy_(result);
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  const NPUGuard guard(first_device(self, mask));
  const auto [mask_expanded, self_expanded] = at::expand_outplace(mask, self);
  if (self_expanded->numel() == 0) return empty({0}, self.scalar_type());
  const DynamicOutput out({self_expanded->numel()}, self.scalar_type());
  ACLNN(aclnnMaskedSelect)(*self_expanded, *mask_expanded, out);
  synchronize_current_stream();
  return out.take();
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == self.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const at::Tensor result = masked_select(self, mask);
  resize_out(out, result.sizes());
  return out.copy_(result);
}

at::Tensor& masked_scatter(at::Tensor& self, const at::Tensor& mask, const at::Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter_: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
              source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  if (self.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  ACLNN(aclnnInplaceMaskedScatter)(self, mask.expand(self.sizes()), source);
  return self;
}

at::Tensor& put(at::Tensor& self, const at::Tensor& index, const at::Tensor& source, bool accumulate) {
  TORCH_CHECK(index.scalar_type() == at::kLong, "put_(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "put_(): self and source expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
              " and source.dtype = ", source.scalar_type());
  TORCH_CHECK_INDEX(index.numel() == source.numel(),
                    "put_(): Expected source and index to have the same number of elements, but got source.numel() = ",
                    source.numel(), ", index.numel() = ", index.numel());
  TORCH_CHECK_INDEX(!(self.numel() == 0 && index.numel() != 0), "put_(): Tried to put elements into an empty tensor");
  at::assert_no_internal_overlap(self);
  at::globalContext().alertNotDeterministic("put_");
  if (index.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  ACLNN(aclnnInplacePut)(self, index, source, accumulate);
  return self;
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1 && c10::isIntegralType(self.scalar_type(), false),
              "bincount only supports 1-d non-negative integral inputs.");
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  if (weighted) at::globalContext().alertNotDeterministic("bincount_npu with weights");
  const NPUGuard guard(self.device().index());
  at::ScalarType type = at::kLong;
  if (weighted) type = weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  int64_t bins = minlength;
  if (self.numel()) {
    TORCH_CHECK(self.min().item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
    bins = std::max(minlength, self.max().item<int64_t>() + 1);
  }
  const at::Tensor out = empty({bins}, type);
  if (self.numel() == 0) return out.fill_(0);
  ACLNN(aclnnBincount)(self, weighted ? std::optional<at::Tensor>(weights->to(type)) : std::nullopt, minlength, out);
  return out;
}

at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<int64_t> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  const NPUGuard guard(repeats.device().index());
  if (repeats.numel() == 0) return empty({0}, repeats.scalar_type());
  TORCH_CHECK(repeats.min().item<int64_t>() >= 0, "repeats can not be negative");
  const int64_t size = output_size ? *output_size : repeats.sum().item<int64_t>();
  const at::Tensor out = empty({size}, repeats.scalar_type());
  if (size) ACLNN(aclnnRepeatInterleaveTensor)(repeats, size, out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index.Tensor", TORCH_FN(index));
  m.impl("index.Tensor_out", TORCH_FN(index_out));
  m.impl("_index_put_impl_", TORCH_FN(index_put));
  m.impl("nonzero", TORCH_FN(nonzero));
  m.impl("nonzero.out", NPU_FN(nonzero_out));
  m.impl("masked_select", NPU_FN(masked_select));
  m.impl("masked_select.out", NPU_FN(masked_select_out));
  m.impl("masked_scatter_", NPU_FN(masked_scatter));
  m.impl("put_", NPU_FN(put));
  m.impl("bincount", NPU_FN(bincount));
  m.impl("repeat_interleave.Tensor", TORCH_FN(repeat_interleave));
}

}  // namespace npu
