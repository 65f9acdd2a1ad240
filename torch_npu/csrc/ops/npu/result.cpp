// Results of the rows of ops/npu.yaml: their sizes, and tensors of them.
#include "csrc/ops/npu/result.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>

#include "csrc/core/empty.h"

namespace npu::ops {

at::Tensor on_device(const Result& result) {
  if (result.type == at::ScalarType::Undefined) return {};
  return npu::empty(C10_AS_INTARRAYREF_SLOW(c10::SymIntArrayRef(result.sizes)), result.type);
}

at::Tensor on_meta(const Result& result) {
  if (result.type == at::ScalarType::Undefined) return {};
  return at::empty_symint(result.sizes, at::TensorOptions().dtype(result.type).device(at::kMeta));
}

Sizes sizes_of(const at::Tensor& tensor) {
  const c10::SymIntArrayRef sizes = tensor.sym_sizes();
  return Sizes(sizes.begin(), sizes.end());
}

Result like(const at::Tensor& tensor) { return {sizes_of(tensor), tensor.scalar_type()}; }
Result like(const at::Tensor& tensor, at::ScalarType type) { return {sizes_of(tensor), type}; }
Result sized(std::initializer_list<c10::SymInt> sizes, at::ScalarType type) { return {Sizes(sizes), type}; }
Result sized(const Sizes& sizes, at::ScalarType type) { return {sizes, type}; }
Result nothing(at::ScalarType type) { return sized({0}, type); }
Result absent() { return {{}, at::ScalarType::Undefined}; }

int64_t wrap(const at::Tensor& tensor, int64_t dim) {
  return at::maybe_wrap_dim(dim, tensor.dim(), /*wrap_scalar=*/false);
}

Sizes with_size(const at::Tensor& tensor, int64_t dim, const c10::SymInt& size) {
  Sizes sizes = sizes_of(tensor);
  sizes[wrap(tensor, dim)] = size;
  return sizes;
}

Sizes without_last(const at::Tensor& tensor, int64_t count) {
  TORCH_CHECK(tensor.dim() >= count, "expected a tensor of at least ", count, " dimensions, got ", tensor.dim());
  Sizes sizes = sizes_of(tensor);
  sizes.resize(sizes.size() - count);
  return sizes;
}

Sizes halved(const at::Tensor& tensor, int64_t dim) {
  const c10::SymInt size = tensor.sym_size(wrap(tensor, dim));
  TORCH_SYM_CHECK((size % 2).sym_eq(0), "the input has the size ", size, " in dimension ", dim, ", which must be even");
  return with_size(tensor, dim, size / 2);
}

Sizes reduced(const at::Tensor& tensor, const at::Tensor& gamma) {
  TORCH_CHECK(gamma.dim() <= tensor.dim(), "gamma has ", gamma.dim(), " dimensions, the input only ", tensor.dim());
  Sizes sizes = sizes_of(tensor);
  for (int64_t d = tensor.dim() - gamma.dim(); d < tensor.dim(); ++d) sizes[d] = 1;
  return sizes;
}

}  // namespace npu::ops
