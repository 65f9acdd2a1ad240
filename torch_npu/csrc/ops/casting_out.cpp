// Operators that write their result to an output of any type it can be cast to. CANN's functions write their own type, so the
// result is made first, as PyTorch makes it. What it is not: the functional forms, which are rows of ops/aten.yaml.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/all_native.h>
#include <ATen/ops/angle.h>
#include <ATen/ops/any_native.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/logsumexp_native.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <ATen/ops/nansum.h>
#include <torch/library.h>

#include "csrc/core/device.h"
#include "csrc/core/type_name.h"
#include "csrc/ops/castable.h"
#include "csrc/ops/device_check.h"
#include "csrc/ops/storage.h"

namespace npu {

at::Tensor& cast_into(at::Tensor& out, const at::Tensor& result) {
  check_castable(result.scalar_type(), out.scalar_type());
  resize_out(out, result.sizes());
  return out.copy_(result);
}

at::Tensor& copy_into(at::Tensor& out, const at::Tensor& result) {
  TORCH_CHECK(out.scalar_type() == result.scalar_type(), "Expected out tensor to have dtype ", result.dtype(),
              ", but got ", out.dtype(), " instead");
  resize_out(out, result.sizes());
  return out.copy_(result);
}

namespace {

at::Tensor& max_out(const at::Tensor& self, at::Tensor& out) { return cast_into(out, at::max(self)); }
at::Tensor& min_out(const at::Tensor& self, at::Tensor& out) { return cast_into(out, at::min(self)); }
at::Tensor& angle_out(const at::Tensor& self, at::Tensor& out) {
  at::assert_no_partial_overlap(out, self);
  return cast_into(out, at::angle(self));
}

at::Tensor& logsumexp_out(const at::Tensor& self, at::IntArrayRef dim, bool keepdim, at::Tensor& out) {
  TORCH_CHECK(out.is_floating_point() || out.is_complex(),
              "logsumexp(): Expected floating point type for result tensor, but got: ", out.scalar_type());
  // PyTorch's composition adds the real parts up in the output.
  if (self.is_complex() && !out.is_complex()) return at::native::logsumexp_out(self, dim, keepdim, out);
  return cast_into(out, at::logsumexp(self, dim, keepdim));
}

// Added up in the output's type.
at::Tensor& nansum_out(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                       std::optional<at::ScalarType> dtype, at::Tensor& out) {
  const at::ScalarType type = dtype ? *dtype : out.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(!self.is_floating_point() || c10::isFloatingType(type), "nansum of ", type_name(self),
                              " is not implemented for ", type_name(type));
  return cast_into(out, at::nansum(self, dim, keepdim, type));
}

// Over several dimensions PyTorch writes these two into bool and uint8 alone, on every device with a kernel of its own.
void check_truth(const char* name, const at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kBool || out.scalar_type() == at::kByte, name,
              " only supports bool tensor for result, got: ", out.scalar_type());
}
at::Tensor& any_dims_out(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, at::Tensor& out) {
  check_truth("any", out);
  return at::native::any_dims_out_default(self, dim, keepdim, out);
}
at::Tensor& all_dims_out(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, at::Tensor& out) {
  check_truth("all", out);
  return at::native::all_dims_out_default(self, dim, keepdim, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("max.unary_out", NPU_FN(max_out));
  m.impl("min.unary_out", NPU_FN(min_out));
  m.impl("angle.out", NPU_FN(angle_out));
  m.impl("logsumexp.out", NPU_FN(logsumexp_out));
  m.impl("nansum.out", NPU_FN(nansum_out));
  m.impl("any.dims_out", NPU_FN(any_dims_out));
  m.impl("all.dims_out", NPU_FN(all_dims_out));
}

}  // namespace npu
