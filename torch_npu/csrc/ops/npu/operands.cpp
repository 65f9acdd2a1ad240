// See operands.h.
#include "csrc/ops/npu/operands.h"

#include <string>
#include <string_view>

#include "csrc/core/device.h"

namespace npu::ops {

std::string name_of(std::string_view names, size_t index) {
  for (; index > 0; --index) names.remove_prefix(names.find(',') + 1);
  return std::string(names.substr(0, names.find(',')));
}

namespace {

std::string name_in(const Operand& operand, const std::string& name, size_t place) {
  return operand.tensors().size() < 2 ? name : name + "[" + std::to_string(place) + "]";
}

[[noreturn]] C10_NOINLINE void refuse_none(const char* op, const std::string& name) {
  TORCH_CHECK_TYPE(false, op, ": ", name, " is None, but must be a tensor");
}

[[noreturn]] C10_NOINLINE void refuse_device(const char* op, const std::string& name, c10::Device device,
                                             const std::string& first_name, c10::Device first) {
  const bool npu_first = first.is_privateuseone() || !device.is_privateuseone();
  TORCH_CHECK(false, op, ": Expected all tensors to be on the same device, but ", name, " is on ", device, " and ",
              first_name, " on ", first, "; move ", npu_first ? name : first_name, " with .to(\"",
              npu_first ? first : device, "\")");
}

}  // namespace

c10::DeviceIndex check_operands(const char* op, const char* names, uint64_t needed, uint64_t anywhere,
                                std::initializer_list<Operand> operands) {
  const at::Tensor* first = nullptr;
  std::pair<size_t, size_t> first_place;
  c10::DeviceIndex index = -1;
  size_t i = 0;
  for (const Operand& operand : operands) {
    const bool must = needed >> i & 1;
    const bool free = anywhere >> i & 1;
    size_t place = 0;
    for (const at::Tensor& tensor : operand.tensors()) {
      if (C10_UNLIKELY(!tensor.defined())) {
        if (must) refuse_none(op, name_in(operand, name_of(names, i), place));
        ++place;
        continue;
      }
      const c10::Device device = tensor.device();
      if (index < 0 && device.is_privateuseone()) index = device.index();
      if (free || (device.is_cpu() && tensor.dim() == 0)) {
        // Wherever it is.
      } else if (!first) {
        first = &tensor;
        first_place = {i, place};
      } else if (C10_UNLIKELY(device != first->device())) {
        const Operand& other = operands.begin()[first_place.first];
        refuse_device(op, name_in(operand, name_of(names, i), place), device,
                      name_in(other, name_of(names, first_place.first), first_place.second), first->device());
      }
      ++place;
    }
    ++i;
  }
  return index >= 0 ? index : current_device();
}

}  // namespace npu::ops
