// Quantization behind other arithmetic: sizes, see sizes.h.
#include <ATen/WrapDimUtils.h>

#include <algorithm>

#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

constexpr int64_t kPlain[] = {0, 1, 2};

}  // namespace

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
    const bool none = !perm || perm->empty();
    TORCH_CHECK_VALUE(none || (perm->size() == 3 && std::is_permutation(perm->begin(), perm->end(), kPlain)),
                      "npu_transpose_batchmatmul: ", *perm, " is not a permutation of 0, 1 and 2");
    return t.sym_size(perm && !perm->empty() ? (*perm)[d] : static_cast<int64_t>(d));
  };
  const c10::SymInt batch = size(a, perm_a, 0), m = size(a, perm_a, 1), n = size(b, perm_b, 2);
  TORCH_SYM_CHECK(size(a, perm_a, 2).sym_eq(size(b, perm_b, 1)), "npu_transpose_batchmatmul: inner sizes ",
                  size(a, perm_a, 2), " and ", size(b, perm_b, 1));
  need_same_type("npu_transpose_batchmatmul", "input", a, "weight", b);
  TORCH_SYM_CHECK(size(b, perm_b, 0).sym_eq(batch), "npu_transpose_batchmatmul: batches of ", batch, " and ",
                  size(b, perm_b, 0));
  TORCH_CHECK_VALUE(split >= 1 && batch % split == 0, "npu_transpose_batchmatmul: batch_split_factor is ", split,
                    "; it divides the batch of ", batch);
  TORCH_CHECK(split == 1 || !given(scale),
              "npu_transpose_batchmatmul: batch_split_factor and scale exclude each other");
  need_elements("npu_transpose_batchmatmul", "scale", scale, {batch * n});
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

void check_norm_quant(const char* op, const at::Tensor& x, const at::Tensor& gamma, const OptionalTensor& beta,
                      const OptionalTensor& scale, const OptionalTensor& offset) {
  TORCH_CHECK(x.dim() > 0, op, ": x has no dimensions");
  const bool row = gamma.dim() == 2 && gamma.sym_size(0) == 1 && gamma.sym_size(1) == x.sym_size(-1);
  if (!row) check_gamma(op, x, gamma);  // gamma may have a dimension of one before its columns
  const c10::SymInt columns = x.sym_size(-1), each = gamma.sym_numel();
  need_elements(op, "beta", beta, {each});
  need_elements(op, "scale", scale, {1, columns, each});
  need_elements(op, "offset", offset, {1, columns, each});
}

void check_quantize(const at::Tensor& input, const at::Tensor& scales, const OptionalTensor& zero_points,
                    int64_t axis) {
  constexpr const char* kOp = "npu_quantize";
  Sizes counts{1};
  const int64_t dim = at::maybe_wrap_dim(axis, input.dim());
  if (input.dim()) counts.push_back(input.sym_size(dim));
  need_elements(kOp, "scales", scales, counts);
  need_elements(kOp, "zero_points", zero_points, counts);
}

void check_anti_quant(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& offset) {
  constexpr const char* kOp = "npu_anti_quant";
  need_type(kOp, "x", x, {at::kChar, at::kInt});
  const Sizes out = x.scalar_type() == at::kInt ? with_size(x, -1, x.sym_size(-1) * 8) : sizes_of(x);
  need_broadcast(kOp, "scale", scale, out);
  need_broadcast(kOp, "offset", offset, out);
}

void check_group_quant(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& groups,
                       const OptionalTensor& offset) {
  constexpr const char* kOp = "npu_group_quant";
  need_dims(kOp, "x", x, {2});
  need_dims(kOp, "group_index", groups, {1});
  need_integers(kOp, "group_index", groups);
  need_sizes(kOp, "scale", scale, {groups.sym_size(0), x.sym_size(1)});
  need_elements(kOp, "offset", offset, {1});
}

void check_gated_rows(const char* op, const at::Tensor& x, const OptionalTensor& groups, const OptionalTensor& scale,
                      const OptionalTensor& offset) {
  TORCH_CHECK(x.dim() >= 2, op, ": x has ", x.dim(), " dimensions, at least two are expected");
  need_integers(op, "group_index", groups);
  const c10::SymInt columns = halved(x, -1).back(), count = given(groups) ? groups->sym_numel() : c10::SymInt(1);
  need_elements(op, "the scale", scale, {1, columns, count, count * columns});
  need_elements(op, "the offset", offset, {1, columns, count, count * columns});
}

void check_quant_max(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& groups) {
  constexpr const char* kOp = "npu_quant_max";
  TORCH_SYM_CHECK(x.sym_numel().sym_gt(0), kOp, ": x has no elements, so no maximum");
  need_integers(kOp, "group_list", groups);
  if (given(groups)) need_dims(kOp, "group_list", *groups, {1});
  need_elements(kOp, "scale", scale, {given(groups) ? groups->sym_numel() : c10::SymInt(1)});
}

void check_grouped_add(const char* op, const at::Tensor& y, const at::Tensor& x, const at::Tensor& weight,
                       const at::Tensor& groups) {
  need_dims(op, "x", x, {2});
  need_sizes(op, "weight", weight, {x.sym_size(0), -1});
  need_dims(op, "group_list", groups, {1});
  need_integers(op, "group_list", groups);
  need_elements(op, "input", y, {groups.sym_size(0) * x.sym_size(1) * weight.sym_size(1)});
}

void check_lora(const char* op, const at::Tensor& y, const at::Tensor& x, const at::Tensor& b,
                const at::Tensor& indices, const OptionalTensor& a, int64_t layer, int64_t from, int64_t count) {
  need_dims(op, "input", y, {2});
  need_sizes(op, "x", x, {y.sym_size(0), -1});
  need_dims(op, "weight_b", b, {4});
  need_integers(op, "indices", indices);
  need_sizes(op, "indices", indices, {x.sym_size(0)});
  need_sizes(op, "weight_a", a, {b.sym_size(0), b.sym_size(1), b.sym_size(3), x.sym_size(1)});
  if (!given(a)) need_sizes(op, "weight_b", b, {-1, -1, -1, x.sym_size(1)});
  TORCH_SYM_CHECK(b.sym_size(1).sym_gt(layer), op, ": layer_idx is ", layer, " of ", b.sym_size(1), " layers");
  TORCH_CHECK_VALUE(layer >= 0 && from >= 0, op, ": layer_idx is ", layer, ", y_offset ", from);
  const c10::SymInt columns = count < 0 ? b.sym_size(2) : c10::SymInt(count);
  TORCH_SYM_CHECK(columns.sym_eq(b.sym_size(2)), op, ": y_slice_size is ", columns, ", weight_b has ", b.sym_size(2),
                  " rows");
  TORCH_SYM_CHECK((columns + from).sym_le(y.sym_size(1)), op, ": columns ", from, " to ", columns + from, " of ",
                  y.sym_size(1));
}

void check_feed_forward(const at::Tensor& x, const at::Tensor& w1, const at::Tensor& w2, at::OptionalIntArrayRef tokens,
                        at::OptionalIntArrayRef ends) {
  constexpr const char* kOp = "npu_ffn";
  TORCH_CHECK(!tokens || !ends, kOp, ": expert_tokens and expert_tokens_index exclude each other");
  TORCH_CHECK(x.dim() >= 2, kOp, ": x has ", x.dim(), " dimensions, at least two are expected");
  const at::OptionalIntArrayRef list = ends ? ends : tokens;
  const int64_t dims = list && !list->empty() ? 3 : 2;
  need_dims(kOp, "weight1", w1, {dims});
  need_dims(kOp, "weight2", w2, {dims});
  TORCH_SYM_CHECK(w1.sym_size(-2).sym_eq(x.sym_size(-1)), kOp, ": x has ", x.sym_size(-1), " columns, weight1 ",
                  w1.sym_size(-2), " rows");
  if (dims == 2) return;
  TORCH_SYM_CHECK(x.sym_size(-1).sym_gt(0), kOp, ": x has no columns");
  const c10::SymInt rows = x.sym_numel() / x.sym_size(-1), count = static_cast<int64_t>(list->size());
  TORCH_SYM_CHECK(w1.sym_size(0).sym_eq(count).sym_and(w2.sym_size(0).sym_eq(count)), kOp, ": ", count,
                  " groups of tokens for ", w1.sym_size(0), " and ", w2.sym_size(0), " experts");
  int64_t last = 0;
  for (int64_t number : *list) {
    TORCH_CHECK_VALUE(number >= (ends ? last : 0), kOp, ends ? ": expert_tokens_index is " : ": expert_tokens is ",
                      *list, ends ? ", which decreases" : ", which has a negative count");
    last = ends ? number : last + number;
  }
  TORCH_SYM_CHECK(rows.sym_eq(last), kOp, ": the groups have ", last, " rows, x ", rows);
}

bool wants(const std::optional<std::array<bool, 2>>& mask, size_t i, bool otherwise) {
  return mask ? (*mask)[i] : otherwise;
}

c10::SymInt row_count(const at::Tensor& tensor) {
  return tensor.sym_size(-1) == 0 ? c10::SymInt(0) : tensor.sym_numel() / tensor.sym_size(-1);
}

c10::SymInt last_size(at::TensorList list) {
  TORCH_CHECK(!list.empty(), "an empty list of tensors");
  return list[0].sym_size(-1);
}

}  // namespace npu::ops
