// Automatic mixed precision on the dispatcher: which operators run in the lower precision, which in float32, and which
// in the widest type of their arguments, when autocast is on for "npu".
// The lists are PyTorch's own, shared by its back ends (ATen/autocast_mode.h), so they grow with PyTorch; what is added
// here is what PyTorch adds for CUDA by hand. Not here: the switch itself (torch.autocast), loss scaling
// (torch_npu/npu/amp) and the rules of the NPU's own operators (`autocast:` of ops/npu.yaml, ops/npu/autocast.h). This
// is the one file that may include ATen.h: autocast_mode.h does.
// Cost when autocast is off: none, the AutocastPrivateUse1 key is excluded then.
#include <ATen/autocast_mode.h>

#include "csrc/ops/npu/autocast.h"

namespace npu {

at::Tensor autocast_to(at::ScalarType type, const at::Tensor& tensor) {
  return at::autocast::cached_cast(type, tensor, c10::DeviceType::PrivateUse1);
}

at::ScalarType autocast_type() { return at::autocast::get_autocast_dtype(c10::DeviceType::PrivateUse1); }

namespace {

using namespace at;  // the list macros name types without at::

// Its backward overflows in half precision whatever the forward computed, so it is refused rather than cast.
at::Tensor binary_cross_entropy_refused(const at::Tensor& self, const at::Tensor& target,
                                        const std::optional<at::Tensor>& weight, int64_t reduction) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
              "Many models use a sigmoid layer right before the binary cross entropy layer. In this case, combine the "
              "two layers using torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss: "
              "they are safe to autocast.");
}

#define NPU_LOWER_PRECISION_FP(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define NPU_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define NPU_FP32_SET_OPT_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define NPU_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

// Operators on no list run in the type of their arguments.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  AT_FORALL_LOWER_PRECISION_FP(NPU_LOWER_PRECISION_FP)
  AT_FORALL_FP32(NPU_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(NPU_FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(NPU_PROMOTE)
  KERNEL_PRIVATEUSEONE(lstm, input, lower_precision_fp)
  m.impl("binary_cross_entropy", &binary_cross_entropy_refused);
}

}  // namespace
}  // namespace npu
