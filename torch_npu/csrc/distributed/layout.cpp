// See layout.h.
#include "csrc/distributed/layout.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "csrc/core/type_name.h"
#include "csrc/distributed/reduction.h"

namespace npu::distributed {

void Counts::add(uint64_t n) {
  counts.push_back(n);
  displacements.push_back(total);
  total += n;
}

Counts counts_of(const std::vector<at::Tensor>& tensors) {
  Counts c;
  for (const at::Tensor& t : tensors) c.add(count(as_real(t)));
  return c;
}

bool all_equal(const Counts& c) {
  return std::all_of(c.counts.begin(), c.counts.end(), [&](uint64_t n) { return n == c.counts[0]; });
}

Counts counts_of_splits(const std::vector<int64_t>& splits, const at::Tensor& tensor, int ranks, const char* what) {
  Counts c;
  const int64_t rows = tensor.dim() ? tensor.size(0) : 0;
  const auto row = static_cast<uint64_t>(rows ? tensor.numel() / rows : 0);
  if (splits.empty()) {
    TORCH_CHECK(rows % ranks == 0, "ProcessGroupHCCL: all_to_all: ", what, " of ", rows,
                " rows does not split evenly over ", ranks, " ranks");
    for (int r = 0; r < ranks; ++r) c.add(static_cast<uint64_t>(rows / ranks) * row);
    return c;
  }
  TORCH_CHECK(static_cast<int>(splits.size()) == ranks, "ProcessGroupHCCL: all_to_all: ", splits.size(), " ", what,
              " splits for ", ranks, " ranks");
  for (int64_t s : splits)
    TORCH_CHECK(s >= 0, "ProcessGroupHCCL: all_to_all: the ", what, " splits hold ", s,
                "; a rank's rows are 0 or more");
  TORCH_CHECK(std::accumulate(splits.begin(), splits.end(), int64_t{0}) == rows, "ProcessGroupHCCL: all_to_all: the ",
              what, " splits do not add up to its ", rows, " rows");
  for (int64_t s : splits) c.add(static_cast<uint64_t>(s) * row);
  return c;
}

at::Tensor empty_like_flat(const at::Tensor& model, uint64_t n) {
  return at::empty({static_cast<int64_t>(n)}, as_real(model).options().memory_format(c10::nullopt));
}

at::Tensor flat(const std::vector<at::Tensor>& tensors, const at::Tensor& model) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& t : tensors)
    if (t.numel()) parts.push_back(as_real(t).reshape({-1}));
  return parts.empty() ? empty_like_flat(model, 0) : at::cat(parts);
}

void unflatten(const at::Tensor& from, const std::vector<at::Tensor>& to) {
  int64_t at = 0;
  for (const at::Tensor& t : to) {
    const at::Tensor part = as_real(t);
    if (part.numel()) part.copy_(from.narrow(0, at, part.numel()).view(part.sizes()));
    at += part.numel();
  }
}

std::function<void()> copy_back(const at::Tensor& buffer, const at::Tensor& tensor) {
  if (buffer.data_ptr() == tensor.data_ptr()) return {};
  return [buffer, tensor] { tensor.copy_(buffer.view(tensor.sizes())); };
}

void check_type(const at::Tensor& tensor, const at::Tensor& other) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == other.scalar_type(), "ProcessGroupHCCL: tensors of one call have the types ",
                   type_name(tensor), " and ", type_name(other));
}

}  // namespace npu::distributed
