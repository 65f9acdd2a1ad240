// Calls of functions that a header declares: the first three are wrong, and the compiler says so; all others are as declared, or undeclared.
#include <ATen/ATen.h>
#include <aclnn/api.h>

#include "torch_npu/csrc/extension/exec_npu_cmd.h"

void wrong(const at::Tensor& a, const at::Tensor& b, const at::Scalar& alpha, const at::Tensor& out) {
  EXEC_NPU_CMD_EXT(aclnnAdd, a, b, out);
  EXEC_NPU_CMD_EXT(aclnnAdd, a, b, out, alpha);
  EXEC_NPU_CMD_EXT(aclnnAdd, a, b, 0.5, out);
}

template <class T>
void right(const T& a, const std::optional<T>& b, const std::optional<at::Scalar>& alpha, at::TensorList all) {
  T out = a;
  void* handle = nullptr;
  const int64_t axes[2] = {0, 1};
  EXEC_NPU_CMD_EXT(aclnnAdd, a, b, alpha, out);
  EXEC_NPU_CMD_EXT(aclnnAdd, static_cast<aclTensor*>(handle), nullptr, handle, out);
  EXEC_NPU_CMD_EXT(aclnnCat, all, 0, out);
  EXEC_NPU_CMD_EXT(aclnnReduceSum, a, at::IntArrayRef({0}), false, at::kFloat, out);
  EXEC_NPU_CMD_EXT(aclnnReduceSum, a, axes, false, ACL_FLOAT, out);
  EXEC_NPU_CMD_EXT(aclnnAddRmsNormDynamicMxQuant, a, a, a, b, 1e-6, 0, "rint", 36, true, out, out, out, out);
  EXEC_NPU_CMD_EXT(aclnnNobodyHasThis, a, 0.5, out);
  for (const auto& each : all) EXEC_NPU_CMD_EXT(aclnnAbs, each, out);
}
template void right<at::Tensor>(const at::Tensor&, const std::optional<at::Tensor>&, const std::optional<at::Scalar>&,
                                at::TensorList);
