// See doubles.h.
#include "csrc/ops/composed/doubles.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>

#include <algorithm>

#include "csrc/core/empty.h"
#include "csrc/ops/composed/composed.h"
#include "csrc/ops/composed/processor.h"

namespace npu {
namespace {

constexpr int64_t kBlock = int64_t{1} << 22;  // elementwise products at a time

}  // namespace

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  const int64_t m = a.size(-2), n = b.size(-1), k = a.size(-1);
  std::vector<int64_t> sizes = at::infer_size(a.sizes().slice(0, a.dim() - 2), b.sizes().slice(0, b.dim() - 2));
  sizes.insert(sizes.end(), {m, n});
  if (has_processor_kernels()) {
    const at::Tensor out = empty(sizes, a.scalar_type());
    if (out.numel() > 0) {
      run_on_processor("matmul", {out}, {a, b},
                       [](Tensors& outs, const Tensors& ins) { at::matmul_out(outs[0], ins[0], ins[1]); });
    }
    return out;
  }
  at::Tensor out = a.new_zeros(sizes);
  const int64_t step = std::max<int64_t>(1, kBlock / std::max<int64_t>(1, out.numel()));
  for (int64_t i = 0; i < k && out.numel() > 0; i += step) {
    const at::Tensor left = a.slice(-1, i, i + step).unsqueeze(-1), right = b.slice(-2, i, i + step).unsqueeze(-3);
    out.add_(left.mul(right).sum(-2));
  }
  return out;
}

at::Tensor joined(const std::vector<at::Tensor>& parts, int64_t dim) {
  if (parts.front().scalar_type() != at::kComplexDouble) return at::cat(parts, dim);
  const int64_t along = at::maybe_wrap_dim(dim, parts.front().dim());
  std::vector<int64_t> sizes = parts.front().sizes().vec();
  sizes[along] = 0;
  for (const at::Tensor& part : parts) sizes[along] += part.size(along);
  at::Tensor out = empty(sizes, at::kComplexDouble);
  int64_t from = 0;
  for (const at::Tensor& part : parts) {
    out.narrow(along, from, part.size(along)).copy_(part);
    from += part.size(along);
  }
  return out;
}

at::Tensor truncated(const at::Tensor& x) { return where(x.lt(0), x.ceil(), x.floor()); }

}  // namespace npu
