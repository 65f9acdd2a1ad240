// Hyper connections behind a layer: streams of residuals [.., streams, columns] mixed with its result. Arithmetic is fp32, rounded once. See
// compose.h.
#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>

#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

void check_streams(const char* op, const at::Tensor& x, const OptionalTensor& h_res, const at::Tensor& h_out,
                   const at::Tensor& h_post) {
  need_dims(op, "x", x, {3, 4});
  need_same_type(op, "x", x, "h_out", h_out);
  const c10::SymInt streams = x.sym_size(-2), columns = x.sym_size(-1);
  Sizes outer = without_last(x, 2), matrix = outer, out = outer, post = outer;
  matrix.insert(matrix.end(), {streams, streams});
  out.push_back(columns);
  post.push_back(streams);
  need_sizes(op, "h_res", h_res, matrix);
  need_sizes(op, "h_out", h_out, out);
  need_sizes(op, "h_post", h_post, post);
}

}  // namespace

at::Tensor mixed_streams(const at::Tensor& x, const OptionalTensor& h_res, const at::Tensor& h_out,
                         const at::Tensor& h_post) {
  check_streams("npu_mhc_post", x, h_res, h_out, h_post);
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const at::Tensor kept = given(h_res) ? multiplied(wide(*h_res).transpose(-2, -1), wide(x)) : wide(x);
  return (kept + wide(h_out).unsqueeze(-2) * wide(h_post).unsqueeze(-1)).to(x.scalar_type());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> mixed_streams_backward(const at::Tensor& grad,
                                                                                  const at::Tensor& x,
                                                                                  const OptionalTensor& h_res,
                                                                                  const at::Tensor& h_out,
                                                                                  const at::Tensor& h_post) {
  check_streams("npu_mhc_post_backward", x, h_res, h_out, h_post);
  need_sizes("npu_mhc_post_backward", "grad_y", grad, sizes_of(x));
  const at::Tensor dy = wide(grad);
  at::Tensor dx = dy, dres;
  if (given(h_res)) {
    dx = multiplied(wide(*h_res), dy);
    dres = multiplied(wide(x), dy.transpose(-2, -1)).to(h_res->scalar_type());
  }
  return {dx.to(x.scalar_type()), dres, (dy * wide(h_post).unsqueeze(-1)).sum(-2).to(h_out.scalar_type()),
          (dy * wide(h_out).unsqueeze(-2)).sum(-1).to(h_post.scalar_type())};
}

}  // namespace npu::ops
