// The distinct values of a tensor, with each element's place among them and how often each occurs.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/unique_consecutive.h>
#include <ATen/ops/unique_dim.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>

#include <tuple>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

void put_unique(Frame& frame, const std::tuple<Tensor, Tensor, Tensor>& found, bool inverse, bool counts,
                const UniqueResults& results) {
  frame.put_dynamic(results.values, std::get<0>(found));
  if (inverse) put(results.inverse, std::get<1>(found));
  if (counts) frame.put_dynamic(results.counts, std::get<2>(found));
}

}  // namespace

void unique(Frame& frame, const Tensor& self, bool sorted, bool inverse, bool counts, const UniqueResults& results) {
  put_unique(frame, at::_unique2(self, sorted, inverse, counts), inverse, counts, results);
}

void unique_consecutive(Frame& frame, const Tensor& self, bool inverse, bool counts, int64_t dim,
                        const UniqueResults& results) {
  // 1000 and more: of all dimensions as one.
  const auto along = dim >= 1000 ? std::nullopt : std::optional<int64_t>(dim);
  if (!self.is_complex()) {
    return put_unique(frame, at::unique_consecutive(self, inverse, counts, along), inverse, counts, results);
  }
  // ATen has no kernel of complex numbers, but one of slices: of both parts, where the numbers are one dimension.
  const Tensor parts = at::view_as_real(along ? self.contiguous() : self.contiguous().view(-1));
  auto found = at::unique_consecutive(parts, inverse, counts, along ? at::maybe_wrap_dim(*along, self.dim()) : 0);
  std::get<0>(found) = at::view_as_complex(std::get<0>(found).contiguous());
  if (inverse && !along) std::get<1>(found) = std::get<1>(found).view(self.sizes());
  put_unique(frame, found, inverse, counts, results);
}

void unique_dim(Frame& frame, const Tensor& self, int64_t dim, bool sorted, bool inverse,
                const UniqueResults& results) {
  put_unique(frame, at::unique_dim(self, dim, sorted, inverse, true), inverse, true, results);
}

}  // namespace softnpu::ops::kernels
