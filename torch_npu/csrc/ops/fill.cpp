// Filling tensors in place: fill_, zero_, masked_fill_, index_fill_. What it is not: random values (random.cpp) or factories.
#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "csrc/cann/api.h"
#include "csrc/core/device.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/copy.h"
#include "csrc/ops/params.h"

namespace npu {
namespace {

at::Tensor& fill_scalar(at::Tensor& self, const at::Scalar& given) {
  // One element of 16 bits becomes infinite, as on the CPU: numbers that PyTorch wraps in tensors (`x[0] = 1e6`).
  const bool rounds = self.numel() == 1 && c10::isReducedFloatingType(self.scalar_type()) && !given.isComplex();
  const at::Scalar value = rounds ? as_copied(given, self.scalar_type()) : given;
  check_fits(value, self.scalar_type());
  if (self.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  ACLNN(aclnnInplaceFillScalar)(Repeated{self}, value);
  return self;
}

at::Tensor& fill_tensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  if (value.is_cpu()) return fill_scalar(self, as_copied(number_of(value), self.scalar_type()));
  self.copy_(value.expand(self.sizes()));
  return self;
}

at::Tensor& zero_(at::Tensor& self) {
  if (self.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  ACLNN(aclnnInplaceZero)(Repeated{self});
  return self;
}

// Whether no two elements share memory: each stride is beyond all that smaller ones reach.
bool is_apart(const at::Tensor& self) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int64_t i = 0; i < self.dim(); ++i)
    if (self.size(i) > 1) dims.emplace_back(self.stride(i), self.size(i));
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

// Types that CANN's function does not list for any chip, and aclnnSWhere does. One whose elements overlap cannot be copied into.
bool has_no_masked_fill(const at::Tensor& self) {
  const at::ScalarType type = self.scalar_type();
  return (type == at::kDouble || type == at::kComplexFloat || type == at::kComplexDouble) && is_apart(self);
}

at::Tensor& masked_fill_scalar(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  at::infer_size_dimvector(self.sizes(), mask.sizes());
  check_fits(value, self.scalar_type());
  const at::Tensor wide = mask.expand(self.sizes());  // also of nothing: a mask may be too large for that
  if (self.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  if (has_no_masked_fill(self)) return self.copy_(at::scalar_tensor(value, self.options()).where(wide, self));
  ACLNN(aclnnInplaceMaskedFillScalar)(Repeated{self}, wide, value);
  return self;
}

at::Tensor& masked_fill_tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  if (value.is_cpu()) return masked_fill_scalar(self, mask, number_of(value));
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  // A value that may not fit the type is asked for, as on CUDA: the kernel's error would come too late.
  if (!c10::canCast(value.scalar_type(), self.scalar_type())) return masked_fill_scalar(self, mask, value.item());
  const at::Tensor wide = mask.expand(self.sizes());
  if (self.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  if (has_no_masked_fill(self)) return self.copy_(value.to(self.scalar_type()).where(wide, self));
  ACLNN(aclnnInplaceMaskedFillTensor)(Repeated{self}, wide, value);
  return self;
}

at::Tensor& index_fill_scalar(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Scalar& value) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
                    "index_fill_(): Expected dtype int64 for index.");
  TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  check_fits(value, self.scalar_type());
  if (self.numel() == 0 || index.numel() == 0) return self;
  const NPUGuard guard(self.device().index());
  ACLNN(aclnnInplaceIndexFill)(Repeated{self}, dim, index, value);
  return self;
}

at::Tensor& index_fill_tensor(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return index_fill_scalar(self, dim, index, value.item());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fill_.Scalar", TORCH_FN(fill_scalar));
  m.impl("fill_.Tensor", TORCH_FN(fill_tensor));
  m.impl("zero_", TORCH_FN(zero_));
  m.impl("masked_fill_.Scalar", TORCH_FN(masked_fill_scalar));
  m.impl("masked_fill_.Tensor", TORCH_FN(masked_fill_tensor));
  m.impl("index_fill_.int_Scalar", TORCH_FN(index_fill_scalar));
  m.impl("index_fill_.int_Tensor", TORCH_FN(index_fill_tensor));
}

}  // namespace npu
