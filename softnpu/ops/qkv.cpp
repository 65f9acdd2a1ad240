// The joint projection of attention: its bias added, the query scaled, all three split into heads.
#include <ATen/ops/_transform_bias_rescale_qkv.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void heads_of_qkv(const Tensor& qkv, const Tensor& bias, int64_t heads, Tensor& q, Tensor& k, Tensor& v) {
  TORCH_CHECK(heads > 0 && qkv.dim() == 3 && qkv.size(2) > 0 && qkv.size(2) % (3 * heads) == 0 && bias.dim() == 1 &&
                  bias.size(0) == qkv.size(2),
              "aclnnTransformBiasRescaleQkv: ", qkv.sizes(), " and a bias of ", bias.sizes(), " are not of ", heads,
              " heads");
  auto [query, key, value] = at::_transform_bias_rescale_qkv(qkv, bias, heads);
  put(q, query);
  put(k, key);
  put(v, value);
}

}  // namespace softnpu::ops::kernels
