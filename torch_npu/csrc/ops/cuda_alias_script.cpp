#include "torch_npu/csrc/ops/cuda_alias_script.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <memory>
#include <utility>

namespace npu::cuda_alias {
namespace {

using torch::jit::Operator;

constexpr const char* kTo =
    "aten::to.prim_Device(Tensor(a) self, Device? device, int? dtype=None, bool non_blocking=False, bool copy=False) "
    "-> "
    "Tensor(a|b)";
constexpr size_t kArguments = 5;
constexpr size_t kDevice = 1;

// PyTorch's own, while ours is registered. Leaked: the registry may outlive static destructors.
std::shared_ptr<Operator>& stock() {
  static auto* const op = new std::shared_ptr<Operator>();
  return *op;
}

void replace(const Operator& old, Operator&& by) {
  torch::jit::deregisterOperator(c10::FunctionSchema(old.schema()));  // a copy: `old` may be the registry's own
  torch::jit::registerOperator(std::move(by));
}

}  // namespace

void wrap_script_to() {
  if (stock() != nullptr) {
    return;
  }
  stock() = torch::jit::getOperatorForLiteral(kTo);
  auto run = [inner = stock()->getOperation()](torch::jit::Stack& stack) mutable {
    c10::IValue& device = torch::jit::peek(stack, kDevice, kArguments);
    if (device.isDevice() && device.toDevice().is_cuda()) {
      device = c10::Device(c10::DeviceType::PrivateUse1, device.toDevice().index());
    }
    inner(stack);
  };
  replace(*stock(), Operator(kTo, torch::jit::Operation(std::move(run)), c10::AliasAnalysisKind::FROM_SCHEMA));
}

void restore_script_to() {
  if (stock() == nullptr) {
    return;
  }
  Operator original(*stock());
  replace(original, Operator(original));
  stock().reset();
}

}  // namespace npu::cuda_alias
