// See dispatch.h.
#include "csrc/ops/npu/dispatch.h"

namespace npu::ops {

void refuse_cpu(const c10::OperatorHandle& op, torch::jit::Stack*) {
  std::string name = op.schema().name();
  name.replace(name.find("::"), 2, ".");
  TORCH_CHECK_NOT_IMPLEMENTED(false, "torch.ops.", name,
                              " runs on the npu only, and its tensors are on the CPU: move them with .npu()");
}

}  // namespace npu::ops
