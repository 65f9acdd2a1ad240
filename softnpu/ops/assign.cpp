// Results of functions without an out variant, into the caller's buffers.
#include <ATen/ops/copy_native.h>

#include "softnpu/ops/half.h"
#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

void put(Tensor& out, const Tensor& result) {
  if (!out.defined() || !result.defined()) return;
  if (is_hifloat8(out)) {
    Tensor bytes = out.view(at::kByte);
    return put(bytes, (is_hifloat8(result) ? result : hifloat8_codes(result)).view(at::kByte));
  }
  if (is_hifloat8(result)) return put(out, hifloat8_values(result));
  TORCH_CHECK(out.is_complex() || !result.is_complex(), "a result of complex numbers has no room in a real output");
  TORCH_CHECK(out.numel() == result.numel(), "an output has shape ", out.sizes(), ", its result ", result.sizes());
  if (out.sizes() == result.sizes()) {
    if (!convert_half(result, out)) at::native::copy_(out, result, false);
  } else {
    at::native::copy_(out, result.reshape(out.sizes()), false);  // [] against [1]: vendors are loose there
  }
}

}  // namespace softnpu::ops::kernels
