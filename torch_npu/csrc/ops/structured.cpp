// The untemplated half of structured.h.
#include "csrc/ops/structured.h"

#include <ATen/native/Resize.h>

#include "csrc/ops/storage.h"

namespace npu {

at::Tensor new_output(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  if (!strides.empty()) return empty_strided(sizes, strides, type);
  return empty(sizes, type, options.memory_format_opt());
}

void check_output(const at::Tensor& out, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
              out.dtype(), " instead");
  TORCH_CHECK(options.device() == out.device() || !options.device().is_privateuseone() || !options.device().has_index(),
              "Expected out tensor to have device ", options.device(), ", but got ", out.device(), " instead");
}

void give_output(const at::Tensor& out, const at::Tensor& result) {
  resize_out(out, result.sizes());
  out.copy_(result);
}

void resize_output(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                   const at::TensorOptions& options) {
  check_output(out, options);
  if (!at::native::resize_output_check(out, sizes)) return;
  resize_tensor(out, sizes);
  if (!strides.empty()) {
    out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  } else if (options.memory_format_opt()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
  }
}

void check_inplace(const at::Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(), " and output tensor size ",
              sizes, " should match");
}

// Flat: most operators of two tensors ask, and PyTorch's short functions are calls otherwise.
__attribute__((flatten)) bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.is_privateuseone() && a.device() == b.device() && a.scalar_type() == b.scalar_type() && a.is_contiguous() &&
         b.is_contiguous() && a.sizes() == b.sizes() &&
         (!may_share(a, b) ||
          a.storage_offset() == b.storage_offset());  // a partial overlap is the meta function's error
}

bool keeps_dtype(const at::Tensor& tensor, const at::Tensor& number) {
  if (!tensor.is_privateuseone() || !is_cpu_scalar(number) || !number.unsafeGetTensorImpl()->is_wrapped_number() ||
      !tensor.is_contiguous()) {
    return false;
  }
  const at::ScalarType type = tensor.scalar_type(), other = number.scalar_type();
  if (c10::isComplexType(other) || other == at::kBool)
    return false;  // promotes, or is an error that the meta function knows
  if (c10::isFloatingType(type)) return true;
  return c10::isIntegralType(type, false) && c10::isIntegralType(other, false);
}

}  // namespace npu
