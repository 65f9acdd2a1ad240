// Indices of sparse matrices: of COO's sorted rows the places where each row begins (CSR), and back, batches too. Who calls it:
// rows `compose:` of ops/aten.yaml, for PyTorch's conversions between layouts.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/searchsorted.h>

#include "csrc/ops/composed/composed.h"

namespace npu {

at::Tensor row_begins(const at::Tensor& rows, int64_t size, bool out_int32) {
  return at::searchsorted(rows.contiguous(), at::arange(size + 1, rows.options()), out_int32);
}

at::Tensor rows_of_begins(const at::Tensor& begins, const at::Tensor& cols, bool out_int32, bool transpose) {
  const at::ScalarType type = out_int32 ? at::kInt : at::kLong;
  const int64_t n = begins.size(-1) - 1, batches = begins.numel() / (n + 1), entries = cols.size(-1);
  const at::TensorOptions options = begins.options().dtype(at::kLong);
  const at::Tensor counts = begins.diff(1, -1).to(at::kLong).reshape({-1});
  const at::Tensor places = at::repeat_interleave(at::arange(batches * n, options), counts);
  const at::Tensor row = at::arange(n, options).expand({batches, n}).reshape({-1}).index_select(0, places);
  std::vector<at::Tensor> parts;
  std::vector<int64_t> shape = begins.sizes().vec();
  shape.back() = entries;
  for (int64_t d = 0; d + 1 < begins.dim(); ++d) {  // the batch's index in each of its dimensions
    std::vector<int64_t> one(begins.dim(), 1);
    one[d] = begins.size(d);
    parts.push_back(at::arange(begins.size(d), options).reshape(one).expand(shape).reshape({1, -1}));
  }
  parts.push_back((transpose ? cols.to(at::kLong).reshape({-1}) : row).unsqueeze(0));
  parts.push_back((transpose ? row : cols.to(at::kLong).reshape({-1})).unsqueeze(0));
  return at::cat(parts).to(type);
}

}  // namespace npu
