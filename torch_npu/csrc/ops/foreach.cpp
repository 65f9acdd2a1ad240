// Bodies of foreach.h, and the list operators that are more than one call: norm, copy_, zero_.
#include "csrc/ops/foreach.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/_foreach_copy_native.h>
#include <ATen/ops/_foreach_norm_native.h>
#include <ATen/ops/_foreach_zero_native.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/params.h"
#include "csrc/ops/structured.h"

namespace npu {

bool alike(std::initializer_list<at::TensorList> lists) {
  const at::TensorList first = *lists.begin();
  if (first.empty()) return false;
  for (const at::TensorList& list : lists) {
    if (list.size() != first.size()) return false;
  }
  const at::Device device = first[0].device();
  const at::ScalarType type = first[0].scalar_type();
  if (!device.is_privateuseone() || !c10::isFloatingType(type)) return false;
  for (size_t i = 0; i < first.size(); ++i) {
    const at::Tensor& model = first[i];
    for (const at::TensorList& list : lists) {
      const at::Tensor& tensor = list[i];
      if (tensor.device() != device || tensor.scalar_type() != type || tensor.layout() != at::kStrided ||
          !tensor.is_non_overlapping_and_dense() || tensor.sizes() != model.sizes() ||
          tensor.strides() != model.strides()) {
        return false;
      }
    }
  }
  return true;
}

bool alike(std::initializer_list<at::TensorList> lists, const at::Scalar& number) {
  return is_real(number) && alike(lists);
}

bool alike(std::initializer_list<at::TensorList> lists, at::ArrayRef<at::Scalar> numbers) {
  for (const at::Scalar& number : numbers) {
    if (!is_real(number)) return false;
  }
  return numbers.size() == lists.begin()->size() && alike(lists);
}

std::vector<at::Tensor> like_each(at::TensorList tensors) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors)
    result.push_back(empty_strided(tensor.sizes(), tensor.strides(), tensor.scalar_type()));
  return result;
}

at::Tensor numbers_on_device(at::ArrayRef<at::Scalar> numbers, at::TensorList self) {
  const at::Tensor host = at::empty({static_cast<int64_t>(numbers.size())}, at::TensorOptions(at::kDouble));
  double* data = host.mutable_data_ptr<double>();
  for (const at::Scalar& number : numbers) {
    check_fits(number, at::toOpMathType(self[0].scalar_type()));  // the type the CPU computes in
    *data++ = number.toDouble();
  }
  return host.to(self[0].options());
}

namespace {

std::vector<at::Tensor> norm(at::TensorList self, const at::Scalar& ord, std::optional<at::ScalarType> dtype) {
  const double p = ord.isComplex() ? -1 : ord.toDouble();
  if (!alike({self}) || (p != 1 && p != 2) || (dtype && *dtype != self[0].scalar_type())) {
    return at::native::foreach_tensor_norm_slow(self, ord, dtype);
  }
  const NPUGuard guard(first_device(self));
  std::vector<at::Tensor> out;
  out.reserve(self.size());
  for (const at::Tensor& tensor : self) out.push_back(empty({}, tensor.scalar_type()));
  ACLNN(aclnnForeachNorm)(self, ord, out);
  return out;
}

void copy(at::TensorList self, at::TensorList src, bool non_blocking) {
  if (!alike({self, src})) return at::native::foreach_tensor_copy_list_kernel_slow_(self, src, non_blocking);
  const NPUGuard guard(first_device(self));
  ACLNN(aclnnForeachCopy)(src, self);
}

void zero(at::TensorList self) {
  if (!alike({self})) return at::native::foreach_tensor_zero_slow_(self);
  const NPUGuard guard(first_device(self));
  ACLNN(aclnnForeachZeroInplace)(self);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_foreach_norm.Scalar", TORCH_FN(norm));
  m.impl("_foreach_copy_", TORCH_FN(copy));
  m.impl("_foreach_zero_", TORCH_FN(zero));
}

}  // namespace npu
