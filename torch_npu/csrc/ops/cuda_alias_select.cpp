#include "torch_npu/csrc/ops/cuda_alias_select.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <utility>

namespace npu::cuda_alias {
namespace {

using c10::DispatchKey;

class OnNpu final : public c10::OperatorKernel {
 public:
  OnNpu(c10::SafeKernelFunction stock, size_t device, size_t arguments)
      : stock_(std::move(stock)), device_(device), arguments_(arguments) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    c10::IValue& value = torch::jit::peek(*stack, device_, arguments_);
    if (value.isDevice() && value.toDevice().is_cuda()) {
      value = c10::Device(c10::DeviceType::PrivateUse1, value.toDevice().index());
    }
    stock_.callBoxed(op, keys, stack);
  }

 private:
  c10::SafeKernelFunction stock_;
  size_t device_, arguments_;
};

}  // namespace

void cover_backend_select(torch::Library& library) {
  const Silence silence;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getRegistrationsForDispatchKey(DispatchKey::BackendSelect)) {
    if (name.getNamespace() != "aten") {
      continue;
    }
    const c10::OperatorHandle op = dispatcher.findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str());
    const auto device = op.schema().argumentIndexWithName("device");
    if (!device) {
      continue;
    }
    auto kernel = std::make_unique<OnNpu>(op.getComputedKernelForDispatchKey(DispatchKey::BackendSelect),
                                          static_cast<size_t>(*device), op.schema().arguments().size());
    std::string local = name.name.substr(name.name.find("::") + 2);
    if (!name.overload_name.empty()) {
      local += "." + name.overload_name;
    }
    library.impl(local.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::move(kernel)));
  }
}

}  // namespace npu::cuda_alias
