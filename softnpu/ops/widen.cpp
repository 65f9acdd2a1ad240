// See widen.h.
#include "softnpu/ops/widen.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace softnpu::ops::kernels {

bool cpu_computes_bf16() {
  static const bool does = [] {
    const auto asked = c10::Dispatcher::singleton().findSchema({"mkldnn::_is_mkldnn_bf16_supported", ""});
    return asked && asked->typed<bool()>().call();
  }();
  return does;
}

}  // namespace softnpu::ops::kernels
