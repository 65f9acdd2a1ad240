// See reduction.h.
#include "csrc/distributed/reduction.h"

#include <ATen/ops/view_as_real.h>

namespace npu::distributed {

using c10d::ReduceOp;

bool dense(const at::Tensor& tensor) { return tensor.is_non_overlapping_and_dense(); }

at::Tensor as_real(const at::Tensor& tensor) { return tensor.is_complex() ? at::view_as_real(tensor) : tensor; }

at::ScalarType reducible_type(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kBool || type == at::kByte ? at::kInt : type;
}

at::Tensor reducible(const at::Tensor& original, const ReduceOp& op) {
  TORCH_CHECK(!original.is_complex() || c10d::isComplexViewAsRealAllowed(op),
              "ProcessGroupHCCL: this ReduceOp is not defined for complex tensors");
  const at::Tensor tensor = as_real(original);
  if (op.op_ == ReduceOp::PREMUL_SUM) {
    const auto factor = c10::dynamic_intrusive_pointer_cast<c10d::PreMulSumSupplement>(op.supplement_);
    TORCH_CHECK(factor, "ProcessGroupHCCL: PREMUL_SUM without a factor");
    return factor->tensor_factor.defined() ? tensor.mul(factor->tensor_factor) : tensor.mul(factor->double_factor);
  }
  const at::ScalarType type = reducible_type(tensor);
  if (type != tensor.scalar_type()) return tensor.to(type).contiguous();
  return dense(tensor) ? tensor : tensor.contiguous();
}

void finish_reduction(at::Tensor& reduced, const ReduceOp& op, int ranks) {
  if (op.op_ != ReduceOp::AVG || ranks == 1) return;
  if (at::isIntegralType(reduced.scalar_type(), true))
    reduced.div_(ranks, "trunc");
  else
    reduced.div_(ranks);
}

}  // namespace npu::distributed
