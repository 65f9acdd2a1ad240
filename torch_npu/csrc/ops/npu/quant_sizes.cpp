// Quantization behind other arithmetic: sizes, see sizes.h.
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

Sizes blocked(const at::Tensor& x, int64_t rows, int64_t columns) {
  TORCH_CHECK(x.dim() >= 2 && rows > 0 && columns > 0, "blocks of ", rows, " x ", columns, " of ", x.sym_sizes());
  Sizes sizes = sizes_of(x);
  const size_t n = sizes.size();
  sizes[n - 2] = (sizes[n - 2] + (rows - 1)) / rows;
  sizes[n - 1] = (sizes[n - 1] + (columns - 1)) / columns;
  return sizes;
}

Sizes permuted_product(const at::Tensor& a, const at::Tensor& b, at::OptionalIntArrayRef perm_a,
                       at::OptionalIntArrayRef perm_b, const OptionalTensor& scale, int64_t split) {
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3, "npu_transpose_batchmatmul: operands have three dimensions, not ", a.dim(),
              " and ", b.dim());
  const auto size = [](const at::Tensor& t, at::OptionalIntArrayRef perm, size_t d) {
    TORCH_CHECK(!perm || perm->empty() || perm->size() == 3,
                "npu_transpose_batchmatmul: a permutation has three members");
    return t.sym_size(perm && !perm->empty() ? (*perm)[d] : static_cast<int64_t>(d));
  };
  const c10::SymInt batch = size(a, perm_a, 0), m = size(a, perm_a, 1), n = size(b, perm_b, 2);
  TORCH_SYM_CHECK(size(a, perm_a, 2).sym_eq(size(b, perm_b, 1)), "npu_transpose_batchmatmul: inner sizes ",
                  size(a, perm_a, 2), " and ", size(b, perm_b, 1));
  if (given(scale)) return {m, 1, batch * n};
  if (split > 1) return {split, m, batch * n / split};
  return {m, batch, n};
}

Sizes feed_forward_sizes(const at::Tensor& x, const at::Tensor& weight) {
  TORCH_CHECK(x.dim() >= 2 && weight.dim() >= 2, "npu_ffn: x and weight2 have ", x.dim(), " and ", weight.dim(),
              " dimensions, at least two are expected");
  return with_size(x, -1, weight.sym_size(-1));
}

Sizes product_sizes(const char* op, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, op, ": operands have ", a.dim(), " and ", b.dim(), " dimensions");
  TORCH_SYM_CHECK(a.sym_size(-1).sym_eq(b.sym_size(-2)), op, ": inner sizes ", a.sym_size(-1), " and ", b.sym_size(-2));
  return with_size(a, -1, b.sym_size(-1));
}

bool wants(const std::optional<std::array<bool, 2>>& mask, size_t i, bool otherwise) {
  return mask ? (*mask)[i] : otherwise;
}

c10::SymInt last_size(at::TensorList list) {
  TORCH_CHECK(!list.empty(), "an empty list of tensors");
  return list[0].sym_size(-1);
}

}  // namespace npu::ops
