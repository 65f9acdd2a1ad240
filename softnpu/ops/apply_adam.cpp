// See apply_adam.h.
#include "softnpu/ops/apply_adam.h"

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void apply_adam(Tensor& param, Tensor& mean, Tensor& var, const Tensor& gradient, const AdamNumbers& n, bool nesterov) {
  for (const Tensor& t : {mean, var, gradient}) {
    TORCH_CHECK(t.sizes() == param.sizes(), "aclnnApplyAdam: a tensor of ", t.sizes(), " for parameters of ",
                param.sizes());
  }
  for (const Tensor* t : {&n.power1, &n.power2, &n.lr, &n.beta1, &n.beta2, &n.eps}) {
    TORCH_CHECK(t->numel() == 1, "aclnnApplyAdam: a number has ", t->numel(), " elements");
  }
  const auto number = [](const Tensor& t) { return wide(t).reshape({}); };
  const Tensor beta1 = number(n.beta1), beta2 = number(n.beta2), g = wide(gradient);
  const Tensor rate = number(n.lr) * (1 - number(n.power2)).sqrt() / (1 - number(n.power1));
  const Tensor m = beta1 * wide(mean) + (1 - beta1) * g, v = beta2 * wide(var) + (1 - beta2) * g.square();
  const Tensor step = nesterov ? beta1 * m + (1 - beta1) * g : m;
  put(param, wide(param) - rate * step / (v.sqrt() + number(n.eps)));
  put(mean, m);
  put(var, v);
}

}  // namespace softnpu::ops::kernels
