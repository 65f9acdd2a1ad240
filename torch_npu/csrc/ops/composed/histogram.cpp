// Histograms of one and of several dimensions: each number's bin is searched for among the edges, and the bins add up. What is read
// back: without a range, the least and the largest number, which PyTorch wants finite at the call. Who calls it: PyTorch's dispatcher.
#include <ATen/OpMathType.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <torch/library.h>

#include <cmath>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Range = std::optional<at::ArrayRef<double>>;
using Edges = std::vector<at::Tensor>;

void check_inputs(const at::Tensor& input, at::TensorList bins, const OptionalTensor& weight) {
  TORCH_CHECK(input.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions, but got ",
              input.dim());
  const int64_t n = input.size(-1);
  TORCH_CHECK(static_cast<int64_t>(bins.size()) == n, "torch.histogramdd: expected ", n,
              " sequences of bin edges for a ", n, "-dimensional histogram but got ", bins.size());
  for (int64_t d = 0; d < n; ++d) {
    TORCH_CHECK(
        input.dtype() == bins[d].dtype(),
        "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype ",
        input.dtype(), " and bins for dimension ", d, " with dtype ", bins[d].dtype());
    TORCH_CHECK(bins[d].dim() == 1, "torch.histogramdd: bins tensor should have one dimension, but got ", bins[d].dim(),
                " dimensions in the bins tensor for dimension ", d);
    TORCH_CHECK(bins[d].numel() > 0, "torch.histogramdd: bins tensor should have at least 1 element, but got ",
                bins[d].numel(), " elements in the bins tensor for dimension ", d);
  }
  if (!weight) return;
  TORCH_CHECK(input.dtype() == weight->dtype(),
              "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
              "dtype, but got input(",
              input.dtype(), "), and weight(", weight->dtype(), ")");
  const std::vector<int64_t> sizes = weight->dim() ? weight->sizes().vec() : std::vector<int64_t>{1};
  TORCH_CHECK(input.sizes().slice(0, input.dim() - 1) == at::IntArrayRef(sizes),
              "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
              "excluding its innermost dimension, but got input with shape ",
              input.sizes(), " and weight with shape ", weight->sizes());
}

void check_count(int64_t count, int64_t dim) {
  TORCH_CHECK(count > 0, "torch.histogram(): bins must be > 0, but got ", count, " for dimension ", dim);
}

void check_floating(const char* kernel, at::ScalarType type, bool with_halves) {
  const bool half = type == at::kHalf || type == at::kBFloat16;
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kDouble || (with_halves && half), '"', kernel,
                              "\" not implemented for '", type, '\'');
}

// The edges of equal bins, of numbers of shape [M, N].
Edges edges_of(const at::Tensor& input, at::IntArrayRef counts, const Range& range) {
  const int64_t n = input.size(1);
  std::vector<double> low(n, 0), high(n, 1);
  if (range) {
    TORCH_CHECK(static_cast<int64_t>(range->size()) == 2 * n, "torch.histogramdd: for a ", n,
                "-dimensional histogram range should have ", 2 * n, " elements, but got ", range->size());
    for (int64_t d = 0; d < n; ++d) {
      low[d] = (*range)[2 * d];
      high[d] = (*range)[2 * d + 1];
    }
  } else if (input.numel() > 0) {
    check_floating("histogramdd", input.scalar_type(), false);
    const auto [least, most] = at::aminmax(input, 0);
    const std::vector<at::Tensor> ends = {least, most};
    const at::Tensor found = at::stack(ends).to(at::kDouble).cpu();
    const double* const values = found.const_data_ptr<double>();
    low.assign(values, values + n);
    high.assign(values + n, values + 2 * n);
  }
  Edges result;
  for (int64_t d = 0; d < n; ++d) {
    TORCH_CHECK(std::isfinite(low[d]) && std::isfinite(high[d]), "torch.histogramdd: dimension ", d, "'s range [",
                low[d], ", ", high[d], "] is not finite");
    TORCH_CHECK(low[d] <= high[d], "torch.histogramdd: min should not exceed max, but got min ", low[d], " max ",
                high[d], " for dimension ", d);
    const double half = low[d] == high[d] ? 0.5 : 0;
    result.push_back(at::linspace(low[d] - half, high[d] + half, counts[d] + 1, input.options()));
  }
  return result;
}

// Sums in bins. A number past the edges, and one that is none, goes to a bin after the last.
at::Tensor counted(const at::Tensor& self, at::TensorList bins, const OptionalTensor& weight, bool density) {
  check_floating("histogram_cpu", self.scalar_type(), true);
  const auto n = static_cast<int64_t>(bins.size());
  const at::Tensor input = self.reshape({-1, std::max<int64_t>(n, 1)});
  const at::ScalarType type = at::toOpMathType(self.scalar_type());
  std::vector<int64_t> shape;
  int64_t total = 1;
  for (const at::Tensor& edges : bins) {
    shape.push_back(edges.numel() - 1);
    total *= shape.back();
  }
  if (n == 0) return at::Tensor(self.new_zeros({}));
  at::Tensor place, outside;
  for (int64_t d = 0; d < n; ++d) {
    const at::Tensor x = input.select(1, d).contiguous(), edges = bins[d].contiguous();
    const at::Tensor above = at::searchsorted(edges, x, false, true).sub(1).clamp(0, shape[d] - 1);
    const at::Tensor within = x.ge(edges.slice(0, 0, 1)).logical_and(x.le(edges.slice(0, shape[d])));
    place = d == 0 ? above : place.mul(shape[d]).add(above);
    outside = d == 0 ? within.logical_not() : outside.logical_or(within.logical_not());
  }
  const at::Tensor each =
      weight ? weight->reshape({-1}).to(type) : at::Tensor(input.new_ones({1}, input.options().dtype(type)));
  const at::Tensor sums = input.new_zeros({total + 1}, input.options().dtype(type));
  at::Tensor hist = sums.scatter_add(0, place.masked_fill(outside, total), each.expand(place.sizes()));
  hist = hist.slice(0, 0, total).reshape(shape).to(self.scalar_type());
  if (!density) return hist;
  hist = hist.div(hist.sum());
  for (int64_t d = 0; d < n; ++d) {
    std::vector<int64_t> along(n, 1);
    along[d] = -1;
    hist = hist.div(bins[d].diff().reshape(along));
  }
  return hist;
}

std::optional<at::Tensor> flat(const OptionalTensor& weight) {
  return weight && weight->defined() ? OptionalTensor(weight->reshape({-1})) : std::nullopt;
}

using Two = std::tuple<at::Tensor, at::Tensor>;

Two histogram_by(const at::Tensor& self, const at::Tensor& edges, const OptionalTensor& weight, bool density) {
  const at::Tensor column = self.reshape({-1, 1});
  const std::vector<at::Tensor> bins = {edges};
  check_inputs(column, bins, weight);
  check_count(edges.numel() - 1, 0);
  return {counted(column, bins, weight, density), edges};
}

Two histogram_edges(const at::Tensor& self, const at::Tensor& bins, const OptionalTensor& weight, bool density) {
  const NPUGuard guard(self.device().index());
  const auto [hist, edges] = histogram_by(self, bins, flat(weight), density);
  return {hist, edges.clone(at::MemoryFormat::Contiguous)};
}

Two histogram_count(const at::Tensor& self, int64_t bins, Range range, const OptionalTensor& weight, bool density) {
  const NPUGuard guard(self.device().index());
  check_count(bins, 0);
  const std::vector<int64_t> counts = {bins};
  return histogram_by(self, edges_of(self.reshape({-1, 1}), counts, range)[0], flat(weight), density);
}

void check_outputs(const at::Tensor& self, const at::Tensor& hist, const at::Tensor& bin_edges) {
  TORCH_CHECK(self.dtype() == hist.dtype(),
              "torch.histogram: input tensor and hist tensor should have the same dtype, but got input ", self.dtype(),
              " and hist ", hist.dtype());
  TORCH_CHECK(self.dtype() == bin_edges.dtype(),
              "torch.histogram: input tensor and bin_edges tensor should have the same dtype, but got input ",
              self.dtype(), " and bin_edges ", bin_edges.dtype(), " for dimension ", 0);
}

std::tuple<at::Tensor&, at::Tensor&> given(const Two& made, at::Tensor& hist, at::Tensor& bin_edges) {
  resize_out(bin_edges, std::get<1>(made).sizes());
  resize_out(hist, std::get<0>(made).sizes());
  hist.copy_(std::get<0>(made));
  bin_edges.copy_(std::get<1>(made));
  return {hist, bin_edges};
}

std::tuple<at::Tensor&, at::Tensor&> histogram_edges_out(const at::Tensor& self, const at::Tensor& bins,
                                                         const OptionalTensor& weight, bool density, at::Tensor& hist,
                                                         at::Tensor& bin_edges) {
  check_outputs(self, hist, bin_edges);
  return given(histogram_edges(self, bins, weight, density), hist, bin_edges);
}

std::tuple<at::Tensor&, at::Tensor&> histogram_count_out(const at::Tensor& self, int64_t bins, Range range,
                                                         const OptionalTensor& weight, bool density, at::Tensor& hist,
                                                         at::Tensor& bin_edges) {
  check_outputs(self, hist, bin_edges);
  return given(histogram_count(self, bins, range, weight, density), hist, bin_edges);
}

Edges many_edges(const at::Tensor& self, at::IntArrayRef bins, Range range, const OptionalTensor& /*weight*/,
                 bool /*density*/) {
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions");
  TORCH_CHECK(static_cast<int64_t>(bins.size()) == self.size(-1),
              "histogramdd: The size of bins must be equal to the innermost dimension of the input.");
  const NPUGuard guard(self.device().index());
  if (self.size(-1) == 0) return {};
  return edges_of(self.reshape({-1, self.size(-1)}), bins, range);
}

at::Tensor many_by_edges(const at::Tensor& self, at::TensorList bins, const OptionalTensor& weight, bool density) {
  const NPUGuard guard(self.device().index());
  const OptionalTensor given_weight = weight && weight->defined() ? weight : std::nullopt;
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions");
  check_inputs(self, bins, given_weight);
  for (size_t d = 0; d < bins.size(); ++d) check_count(bins[d].numel() - 1, static_cast<int64_t>(d));
  return counted(self, bins, given_weight, density);
}

at::Tensor many_by_count(const at::Tensor& self, at::IntArrayRef bins, Range range, const OptionalTensor& weight,
                         bool density) {
  return many_by_edges(self, many_edges(self, bins, range, weight, density), weight, density);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("histogram.bins_tensor", NPU_FN(histogram_edges));
  m.impl("histogram.bins_tensor_out", NPU_FN(histogram_edges_out));
  m.impl("histogram.bin_ct", NPU_FN(histogram_count));
  m.impl("histogram.bin_ct_out", NPU_FN(histogram_count_out));
  m.impl("_histogramdd_bin_edges", NPU_FN(many_edges));
  m.impl("_histogramdd_from_bin_cts", NPU_FN(many_by_count));
  m.impl("_histogramdd_from_bin_tensors", NPU_FN(many_by_edges));
}

}  // namespace npu
