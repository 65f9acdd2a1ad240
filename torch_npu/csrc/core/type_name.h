// A data type as PyTorch's users write it: torch.uint8, where C++ says Byte. For errors that are ours: those that repeat the CPU's words keep its
// names, and CANN's have CANN's. Who uses it: csrc/ops, csrc/distributed, recovery.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace npu {

inline std::string type_name(at::ScalarType type) {
  const auto number = static_cast<uint8_t>(type);
  if (number >= static_cast<uint8_t>(at::ScalarType::Undefined)) return c10::toString(type);  // no type's number
  return std::string("torch.").append(c10::getDtypeNames(type).first);
}
inline std::string type_name(const at::Tensor& tensor) { return type_name(tensor.scalar_type()); }

}  // namespace npu
