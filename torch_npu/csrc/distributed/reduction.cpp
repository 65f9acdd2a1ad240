// See reduction.h.
#include "csrc/distributed/reduction.h"

#include <ATen/ops/view_as_real.h>

#include "csrc/distributed/types.h"

namespace npu::distributed {

using c10d::ReduceOp;

at::Tensor as_real(const at::Tensor& tensor) { return tensor.is_complex() ? at::view_as_real(tensor) : tensor; }

namespace {

// The type that is summed in. The sum before an average of halves must not overflow where the average does not.
at::ScalarType reducible_type(at::ScalarType type, const ReduceOp& op) {
  if (type == at::kBool || type == at::kByte) return at::kInt;
  return type == at::kHalf && op.op_ == ReduceOp::AVG ? at::kFloat : type;
}

const c10d::NCCLPreMulSumSupplement* factor_of(const ReduceOp& op) {
  return op.op_ == ReduceOp::PREMUL_SUM ? dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get())
                                        : nullptr;
}

}  // namespace

Reduction::Reduction(const ReduceOp& op, int ranks) : wanted_(op), hccl_(hccl_op(op)), ranks_(ranks) {
  TORCH_CHECK(op.op_ != ReduceOp::PREMUL_SUM || factor_of(op), "ProcessGroupHCCL: PREMUL_SUM without a factor");
}

at::Tensor Reduction::prepare(const at::Tensor& original) const {
  TORCH_CHECK(!original.is_complex() || c10d::isComplexViewAsRealAllowed(wanted_),
              "ProcessGroupHCCL: this ReduceOp is not defined for complex tensors");
  TORCH_CHECK_TYPE(original.scalar_type() != at::kBool || wanted_.op_ != ReduceOp::AVG,
                   "ProcessGroupHCCL: ReduceOp.AVG is not defined for bool tensors");
  const at::Tensor tensor = as_real(original);
  if (const auto* factor = factor_of(wanted_)) {
    if (!factor->tensor_factor.defined()) return tensor.mul(factor->double_factor).contiguous();
    // By the tensor as it is: a complex factor does not multiply pairs of numbers.
    return as_real(original.mul(factor->tensor_factor).to(original.scalar_type())).contiguous();
  }
  return tensor.to(reducible_type(tensor.scalar_type(), wanted_)).contiguous();
}

std::function<void()> Reduction::finish(const at::Tensor& buffer, const at::Tensor& tensor) const {
  const bool divide = wanted_.op_ == ReduceOp::AVG && ranks_ > 1, copy = buffer.data_ptr() != tensor.data_ptr();
  if (!divide && !copy) return {};
  return [=, ranks = ranks_] {
    if (divide && at::isIntegralType(buffer.scalar_type(), true))
      buffer.div_(ranks, "trunc");
    else if (divide)
      buffer.div_(ranks);
    if (copy) tensor.copy_(buffer.view(tensor.sizes()));
  };
}

std::vector<at::Tensor> Reduction::with_factor(std::vector<at::Tensor> tensors) const {
  const auto* factor = factor_of(wanted_);
  if (factor && factor->tensor_factor.defined() && factor->tensor_factor.device() == tensors.at(0).device())
    tensors.push_back(factor->tensor_factor);
  return tensors;
}

}  // namespace npu::distributed
