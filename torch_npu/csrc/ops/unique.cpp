// unique and its kin: results of a size only the kernel knows.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/empty.h"
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/dynamic.h"
#include "csrc/ops/operands.h"

namespace npu {
namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
constexpr int64_t kNoDim = 1000;  // CANN's word for "over the flattened tensor"

at::Tensor none() { return empty({0}, at::kLong); }

void check_sized(const at::Tensor& self, int64_t dim) {
  TORCH_CHECK(self.numel() != 0 || self.size(dim) == 0,
              "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
}

Three unique2(const at::Tensor& self, bool sorted, bool return_inverse, bool return_counts) {
  const NPUGuard guard(self.device().index());
  const at::Tensor inverse = return_inverse || return_counts ? empty(self.sizes(), at::kLong) : none();
  if (self.numel() == 0) return {empty({0}, self.scalar_type()), inverse, none()};
  const DynamicOutput values({self.numel()}, self.scalar_type());
  const DynamicOutput counts({return_counts ? self.numel() : 0}, at::kLong);
  ACLNN(aclnnUnique2)(self, sorted, return_inverse, return_counts, values, inverse, counts);
  synchronize_current_stream();
  return {values.take(), return_inverse ? inverse : none(), return_counts ? counts.take() : none()};
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool sorted, bool return_inverse) {
  const auto [values, inverse, counts] = unique2(self, sorted, return_inverse, false);
  return {values, inverse};
}

Three unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  check_computed("unique", self, {at::kComplexFloat, at::kComplexDouble});
  const NPUGuard guard(self.device().index());
  if (dim) {
    dim = at::maybe_wrap_dim(*dim, self.dim());
    check_sized(self, *dim);
  }
  const int64_t groups = dim ? self.size(*dim) : self.numel();
  if (self.numel() == 0) {
    return {empty(dim ? self.sizes() : at::IntArrayRef({0}), self.scalar_type()),
            return_inverse ? empty(dim ? at::IntArrayRef({groups}) : self.sizes(), at::kLong) : none(), none()};
  }
  const c10::DimVector largest = dim ? c10::DimVector(self.sizes()) : c10::DimVector{self.numel()};
  const DynamicOutput values(largest, self.scalar_type());
  const at::Tensor inverse = return_inverse ? empty(dim ? at::IntArrayRef({groups}) : self.sizes(), at::kLong) : none();
  const DynamicOutput counts({return_counts ? groups : 0}, at::kLong);
  ACLNN(aclnnUniqueConsecutive)(self, return_inverse, return_counts, dim.value_or(kNoDim), values, inverse, counts);
  synchronize_current_stream();
  return {values.take(), inverse, return_counts ? counts.take() : none()};
}

Three unique_dim(const at::Tensor& self, int64_t dim, bool sorted, bool return_inverse, bool return_counts) {
  const NPUGuard guard(self.device().index());
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_sized(self, dim);
  if (self.numel() == 0) return {empty(self.sizes(), self.scalar_type()), none(), none()};
  const DynamicOutput values(self.sizes(), self.scalar_type());
  const at::Tensor inverse = empty({self.size(dim)}, at::kLong);
  const DynamicOutput counts({self.size(dim)}, at::kLong);
  ACLNN(aclnnUniqueDim)(self, sorted, return_inverse, dim, values, inverse, counts);
  synchronize_current_stream();
  return {values.take(), inverse, counts.take()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_unique", TORCH_FN(unique));
  m.impl("_unique2", TORCH_FN(unique2));
  m.impl("unique_consecutive", TORCH_FN(unique_consecutive));
  m.impl("unique_dim", TORCH_FN(unique_dim));
}

}  // namespace npu
