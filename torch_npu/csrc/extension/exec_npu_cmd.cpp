// The untemplated half of EXEC_NPU_CMD_EXT: what csrc/ops has for its own calls of aclnn functions, for values whose use is not known.
#include "torch_npu/csrc/extension/exec_npu_cmd.h"

#include "csrc/core/device.h"
#include "csrc/core/lifecycle.h"
#include "csrc/ops/aclnn_call.h"

namespace torch_npu::extension {
namespace {

struct Symbols : npu::detail::AclnnSymbols {
  using AclnnSymbols::AclnnSymbols;
  using AclnnSymbols::launch;
  using AclnnSymbols::missing;
  bool complete() const { return phase_one_ && phase_two_; }
  void* phase_one() const { return phase_one_; }
};

// An operator's output might be a copy that nobody sees.
void check(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_privateuseone(), "npu: an aclnn function was given a tensor on ", tensor.device(),
              ": move it with .npu(), or pass its number as at::Scalar");
  TORCH_CHECK_NOT_IMPLEMENTED(!npu::detail::is_lazy(tensor),
                              "npu: an aclnn function was given a lazy conjugation or negation; resolve_conj() and "
                              "resolve_neg() make a tensor of its own");
}

}  // namespace

AclnnFunction::AclnnFunction(const char* name) : symbols_(nullptr) {
  npu::initialize();
  symbols_ = new Symbols(name);  // leaked: called until the process is gone
}

void* AclnnFunction::phase_one() const {
  const auto& symbols = *static_cast<const Symbols*>(symbols_);
  if (!symbols.complete()) symbols.missing();
  npu::detail::follow_determinism();
  return symbols.phase_one();
}

void AclnnFunction::launch(int status, uint64_t workspace_size, aclOpExecutor* executor) const {
  static_cast<const Symbols*>(symbols_)->launch(status, workspace_size, executor);
}

namespace detail {

aclTensor* make(const at::Tensor& tensor) {
  check(tensor);
  at::Tensor unused;
  return npu::detail::make_tensor(tensor, unused);
}
aclScalar* make(const at::Scalar& scalar) { return npu::detail::make_scalar(scalar); }
aclIntArray* make(at::IntArrayRef values) { return npu::detail::make_ints(values); }
aclFloatArray* make(at::ArrayRef<double> values) { return npu::detail::make_floats(values); }
aclBoolArray* make(at::ArrayRef<bool> values) { return npu::detail::make_bools(values.data(), values.size()); }
aclTensorList* make(at::TensorList tensors) {
  c10::SmallVector<const at::Tensor*, 16> pointers;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) check(tensor);
    pointers.push_back(&tensor);
  }
  c10::SmallVector<at::Tensor, 2> unused;
  return npu::detail::make_list(pointers, unused);
}
aclScalarList* make(at::ArrayRef<at::Scalar> scalars) { return npu::detail::make_list(scalars); }
aclDataType dtype_of(at::ScalarType type) { return npu::acl_dtype(type); }

void destroy(const aclTensor* handle) noexcept { npu::detail::destroy(handle); }
void destroy(const aclScalar* handle) noexcept { npu::detail::destroy(handle); }
void destroy(const aclIntArray* handle) noexcept { npu::detail::destroy(handle); }
void destroy(const aclFloatArray* handle) noexcept { npu::detail::destroy(handle); }
void destroy(const aclBoolArray* handle) noexcept { npu::detail::destroy(handle); }
void destroy(const aclTensorList* handle) noexcept { npu::detail::destroy(handle); }
void destroy(const aclScalarList* handle) noexcept { npu::detail::destroy(handle); }

}  // namespace detail
}  // namespace torch_npu::extension
