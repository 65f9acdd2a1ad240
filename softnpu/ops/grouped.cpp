// Products of groups of rows, each with a weight of its own (aclnnGroupedMatmul). fp32 accumulation; int8 operands are summed in fp64.
#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

// The i-th group's part of operands given as a list, as one tensor with a dimension of groups, or as nothing.
Tensor of_group(at::TensorList list, int64_t i, int64_t dims) {
  if (list.empty()) return {};
  if (list.size() == 1 && list[0].dim() > dims) return list[0][i];
  return list[list.size() == 1 ? 0 : i];
}

std::vector<int64_t> ends_of(const Groups& groups) {
  TORCH_CHECK(groups.list && groups.list->defined(), "aclnnGroupedMatmul: groups along an axis need a group list");
  TORCH_CHECK(groups.list_type == 0 || groups.list_type == 1, "aclnnGroupedMatmul: the group list type ",
              groups.list_type, " is not implemented");
  const Tensor list = groups.list->to(at::kLong).contiguous();
  std::vector<int64_t> ends(list.const_data_ptr<int64_t>(), list.const_data_ptr<int64_t>() + list.numel());
  if (groups.list_type == 1) {
    for (size_t i = 1; i < ends.size(); i++) ends[i] += ends[i - 1];
  }
  return ends;
}

Tensor activated(const Tensor& t, int64_t kind) {
  if (kind == 1) return at::relu(t);
  if (kind == 2) return at::gelu(t, "tanh");
  if (kind == 3) return at::gelu(t);
  if (kind == 4) return t * at::sigmoid(t * 1.702);
  if (kind == 5) return at::silu(t);
  TORCH_CHECK(kind == 0, "aclnnGroupedMatmul: the activation ", kind, " is not 0 to 5");
  return t;
}

Tensor product(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& scale, const Tensor& token_scale) {
  const bool integers = !x.is_floating_point();
  const at::ScalarType type = integers || x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  Tensor y = at::matmul(x.to(type), w.to(type));
  const bool first = bias.defined() && !(integers && bias.is_floating_point());
  if (first) y = y + bias.to(type);
  if (scale.defined()) y = y * scale.to(type);
  if (token_scale.defined()) y = y * token_scale.to(type).unsqueeze(-1);
  return bias.defined() && !first ? y + bias.to(type) : y;
}

}  // namespace

void grouped_matmul(at::TensorList x, at::TensorList weight, at::TensorList bias, at::TensorList scale,
                    at::TensorList token_scale, const Groups& groups, at::TensorList out) {
  const bool one_out = out.size() == 1;
  const auto write = [&](const Tensor& place, const Tensor& y) { place.copy_(activated(y, groups.activation)); };
  if (groups.type == 2) {  // along the inner dimension: a product for each group
    const std::vector<int64_t> ends = ends_of(groups);
    for (size_t i = 0; i < ends.size(); i++) {
      const int64_t from = i ? ends[i - 1] : 0;
      const Tensor y =
          product(x[0].narrow(1, from, ends[i] - from), weight[0].narrow(0, from, ends[i] - from), {}, {}, {});
      write(one_out ? out[0][i] : out[i], y);
    }
    return;
  }
  if (groups.type == -1 || x.size() > 1) {  // pairs
    int64_t row = 0;
    for (size_t i = 0; i < x.size(); i++) {
      const Tensor y = product(x[i], of_group(weight, i, 2), of_group(bias, i, 1), of_group(scale, i, 1),
                               of_group(token_scale, i, 1));
      write(one_out && x.size() > 1 ? out[0].narrow(0, row, y.size(0)) : out[i], y);
      row += x[i].size(0);
    }
    return;
  }
  TORCH_CHECK(groups.type == 0, "aclnnGroupedMatmul: the group type ", groups.type, " is not -1, 0 or 2");
  const std::vector<int64_t> ends = ends_of(groups);
  int64_t from = 0;
  for (size_t i = 0; i < ends.size(); i++) {
    const int64_t count = ends[i] - from;
    TORCH_CHECK(count >= 0 && ends[i] <= x[0].size(0), "aclnnGroupedMatmul: group ", i, " ends at row ", ends[i],
                " of ", x[0].size(0));
    const Tensor tokens = token_scale.empty() ? Tensor() : token_scale[0].narrow(0, from, count);
    const Tensor y = product(x[0].narrow(0, from, count), of_group(weight, i, 2), of_group(bias, i, 1),
                             of_group(scale, i, 1), tokens);
    write(one_out ? out[0].narrow(0, from, count) : out[i], y);
    from = ends[i];
  }
  if (one_out && from < out[0].size(0)) out[0].narrow(0, from, out[0].size(0) - from).zero_();
}

}  // namespace softnpu::ops::kernels
