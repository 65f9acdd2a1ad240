// core/npu/NPUFormat.h: the operators torch.ops.npu.*_format as C++ functions.
#include "torch_npu/csrc/core/npu/NPUFormat.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "csrc/core/NPUStorageImpl.h"
#include "torch_npu/csrc/core/npu/DeviceUtils.h"
#include "torch_npu/csrc/framework/utils/OpPreparation.h"

namespace at_npu::native {
namespace {

template <class Signature>
c10::TypedOperatorHandle<Signature> operator_of(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

}  // namespace

int64_t get_npu_format(const at::Tensor& self) {
  static const auto op = operator_of<int64_t(const at::Tensor&)>("npu::get_npu_format");
  torch_npu::utils::torch_check_npu(self);
  return op.call(self);
}

std::vector<int64_t> get_npu_storage_sizes(const at::Tensor& self) {
  torch_npu::utils::torch_check_npu(self);
  const auto* const storage = dynamic_cast<torch_npu::NPUStorageImpl*>(self.storage().unsafeGetStorageImpl());
  if (!storage) return {static_cast<int64_t>(self.storage().nbytes() / self.element_size())};
  return {storage->npu_desc_.storage_sizes_.begin(), storage->npu_desc_.storage_sizes_.end()};
}

at::Tensor npu_format_cast(const at::Tensor& self, int64_t acl_format) {
  using Signature = at::Tensor(const at::Tensor&, int64_t, std::optional<int64_t>, std::optional<int64_t>);
  static const auto op = operator_of<Signature>("npu::npu_format_cast");
  torch_npu::utils::torch_check_npu(self);
  return op.call(self, acl_format, std::nullopt, std::nullopt);
}

at::Tensor empty_with_format(at::IntArrayRef sizes, const at::TensorOptions& options, int64_t format, bool) {
  using Signature = at::Tensor&(at::Tensor&, int64_t, std::optional<int64_t>, std::optional<int64_t>);
  static const auto tag = operator_of<Signature>("npu::npu_format_cast_", "acl_format");
  at::Tensor made = OpPreparation::apply_tensor_without_format(sizes, options);
  tag.call(made, format, std::nullopt, std::nullopt);
  return made;
}

}  // namespace at_npu::native
