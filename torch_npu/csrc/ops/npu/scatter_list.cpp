// npu_scatter_list, the form that copies: it writes copies of a list of tensors by npu_scatter_list_.
#include <ATen/core/Tensor.h>

#include "csrc/core/device.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/structured.h"
#include "npu_ops.h"

namespace npu::ops::kernels {
std::vector<at::Tensor> scatter_list(at::TensorList input, const at::Tensor& indices, const at::Tensor& updates,
                                     const OptionalTensor& mask, std::string_view reduce, int64_t axis) {
  const NPUGuard guard(first_device(input, indices));
  std::vector<at::Tensor> out;
  for (const at::Tensor& t : input) out.push_back(on_device(like(t)).copy_(t));
  npu_scatter_list_(out, indices, updates, mask, reduce, axis);
  return out;
}

std::vector<at::Tensor> scatter_list_meta(at::TensorList input, const at::Tensor&, const at::Tensor&,
                                          const OptionalTensor&, std::string_view, int64_t) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& t : input) out.push_back(on_meta(like(t)));
  return out;
}

}  // namespace npu::ops::kernels
