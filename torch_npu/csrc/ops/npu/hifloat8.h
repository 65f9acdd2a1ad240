// hifloat8, which PyTorch has no dtype for: users hold its codes in uint8 and name it, as input_dtype and the like, by the vendor's number.
// CANN is told by Bits8, of which PyTorch computes nothing. What it is not: the type's arithmetic, which is CANN's. Who uses it: operators that
// take the name.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "csrc/ops/npu/result.h"

namespace npu::ops {

constexpr int64_t kHifloat8 = 290;  // torch_npu.hifloat8
constexpr at::ScalarType kHifloat8Codes = at::ScalarType::Bits8;

inline bool names_hifloat8(std::optional<int64_t> type) { return type && *type == kHifloat8; }
inline bool is_hifloat8(const at::Tensor& t) { return t.scalar_type() == kHifloat8Codes; }
// As users hold it.
inline at::ScalarType stored(at::ScalarType type) { return type == kHifloat8Codes ? at::kByte : type; }

// The same memory as CANN is told of it: bytes of which `type` says that they are hifloat8; other tensors as they are.
inline at::Tensor read_as(const at::Tensor& t, std::optional<int64_t> type) {
  return names_hifloat8(type) && t.defined() && t.scalar_type() == at::kByte ? t.view(kHifloat8Codes) : t;
}
inline OptionalTensor read_as(const OptionalTensor& t, std::optional<int64_t> type) {
  return given(t) ? OptionalTensor(read_as(*t, type)) : t;
}
inline std::vector<at::Tensor> read_as(at::TensorList list, std::optional<int64_t> type) {
  std::vector<at::Tensor> read;
  for (const at::Tensor& t : list) read.push_back(read_as(t, type));
  return read;
}
// An operand as it is read: bytes that nothing names are no numbers to operators that quantize.
inline void need_name(const char* op, const char* name, const at::Tensor& t) {
  TORCH_CHECK(t.scalar_type() != at::kByte, op, ": ", name, " is uint8, which is read as hifloat8 where ", name,
              "_dtype is torch_npu.hifloat8, ", kHifloat8, ", and as nothing else");
}
// A result that is made as it is stored, as CANN writes it.
inline at::Tensor written_as(const at::Tensor& t, at::ScalarType type) {
  return type == kHifloat8Codes ? t.view(kHifloat8Codes) : t;
}

}  // namespace npu::ops
