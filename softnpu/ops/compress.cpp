// See compress.h.
#include "softnpu/ops/compress.h"

#include <ATen/ops/zeros.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

// The first row of each window.
Tensor firsts(const char* op, const Tensor& x, const Tensor& weight, const Windows& w) {
  TORCH_CHECK(w.layout.empty() || w.layout == "TND", op, ": layout ", w.layout, " is not TND");
  TORCH_CHECK_NOT_IMPLEMENTED(w.type == 0, op, ": actSeqLenType ", w.type, " is not implemented; 0, running ends, is");
  TORCH_CHECK(w.stride > 0 && w.block >= w.stride, op, ": compressBlockSize ", w.block, " and compressStride ",
              w.stride);
  TORCH_CHECK(x.dim() == 3 && weight.dim() == 2 && weight.size(0) == w.block && weight.size(1) == x.size(1), op,
              ": input ", x.sizes(), " and weight ", weight.sizes(), " are not [T, N, D] and [", w.block, ", N]");
  TORCH_CHECK(!w.ends.empty() && w.ends.back() == x.size(0), op, ": actSeqLen, the running ends of ", x.size(0),
              " rows, is ", w.ends);
  std::vector<int64_t> found;
  int64_t start = 0;
  for (const int64_t end : w.ends) {
    TORCH_CHECK(end >= start, op, ": actSeqLen ", w.ends, " is not a running sum");
    for (int64_t at = start; at + w.block <= end; at += w.stride) found.push_back(at);
    start = end;
  }
  Tensor rows = at::empty({static_cast<int64_t>(found.size())}, at::kLong);
  std::copy(found.begin(), found.end(), rows.data_ptr<int64_t>());
  return rows;
}

void need_windows(const char* op, const char* name, const Tensor& t, const Tensor& x, int64_t count) {
  TORCH_CHECK(t.dim() == 3 && t.size(0) == count && t.size(1) == x.size(1) && t.size(2) == x.size(2), op, ": ", name,
              " is ", t.sizes(), ", [", count, ", ", x.size(1), ", ", x.size(2), "] is expected");
}

}  // namespace

void compress_rows(const Tensor& x, const Tensor& weight, const Windows& w, Tensor& out) {
  const Tensor rows = firsts("aclnnNsaCompress", x, weight, w), value = wide(x), by = wide(weight);
  need_windows("aclnnNsaCompress", "output", out, x, rows.numel());
  Tensor sum = at::zeros(out.sizes(), value.options());
  for (int64_t i = 0; i < w.block; i++) sum.addcmul_(value.index_select(0, rows + i), by[i].unsqueeze(1));
  put(out, sum);
}

void compress_rows_backward(const Tensor& gradient, const Tensor& x, const Tensor& weight, const Windows& w,
                            Tensor& grad_x, Tensor& grad_weight) {
  const char* const op = "aclnnNsaCompressGrad";
  const Tensor rows = firsts(op, x, weight, w), d = wide(gradient), value = wide(x), by = wide(weight);
  need_windows(op, "outputGrad", gradient, x, rows.numel());
  Tensor dx = at::zeros(x.sizes(), d.options()), dw = at::zeros(weight.sizes(), d.options());
  for (int64_t i = 0; i < w.block; i++) {
    dx.index_add_(0, rows + i, d * by[i].unsqueeze(1));
    dw[i].copy_((d * value.index_select(0, rows + i)).sum(2).sum(0));
  }
  put(grad_x, dx);
  put(grad_weight, dw);
}

}  // namespace softnpu::ops::kernels
