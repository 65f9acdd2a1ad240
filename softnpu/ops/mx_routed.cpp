// See mx_product.h: experts whose results are summed by rows.
#include <ATen/ops/zeros.h>

#include "softnpu/ops/fused_quant.h"
#include "softnpu/ops/grouped_parts.h"
#include "softnpu/ops/mx_product.h"

namespace softnpu::ops::kernels {
namespace {

// The operands as lists of one; tensors that an absent operand stands for are undefined.
struct RoutedLists {
  explicit RoutedLists(const RoutedFactors& f)
      : weight(f.turned_b ? f.weight.transpose(1, 2) : f.weight),
        bias(f.bias.value_or(Tensor())),
        scale(f.scale.value_or(Tensor())),
        rows(f.row_scale.value_or(Tensor())),
        products{.x = f.x, .weight = weight, .bias = bias, .scale = scale, .token_scale = rows},
        groups{.list = f.groups, .type = 0, .list_type = f.list_type} {}
  RoutedLists(const RoutedLists&) = delete;

  Tensor weight, bias, scale, rows;
  Grouped products;
  Groups groups;
};

}  // namespace

void need_routed(const RoutedFactors& f, const RoutedOptions& options, const Tensor& out) {
  TORCH_CHECK(!given(options.offset) && !given(options.antiquant_scale) && !given(options.antiquant_offset),
              "offset, antiquantScale and antiquantOffset are not implemented");
  TORCH_CHECK(!f.turned_a, "transposeX1 is set; x1 cannot be transposed");
  TORCH_CHECK(f.type == 0, "dtype ", f.type, " is not implemented, 0 (float32) is");
  TORCH_CHECK(given(f.groups) && given(f.scale), "groupList and scale are needed");
  TORCH_CHECK(f.x.dim() == 2 && f.weight.dim() == 3, "x1 and x2 have ", f.x.dim(), " and ", f.weight.dim(),
              " dimensions, two and three are expected");
  const RoutedLists lists(f);
  const Way way = way_of(lists.products);
  TORCH_CHECK(way != Way::kPlain && way != Way::kWeight, "x1 of ", f.x.scalar_type(), " and x2 of ",
              f.weight.scalar_type(), " are not quantized");
  TORCH_CHECK_NOT_IMPLEMENTED(way != Way::kPowers || !given(f.bias),
                              "bias is not implemented with MX operands: the formula has none");
  need_grouped_rows(lists.products, lists.groups, out.dim() == 2 ? out.size(1) : -1);
  const int64_t rows = f.x.size(0), columns = out.size(-1);
  for (const auto& [name, t] : {std::pair{"logit", &f.logit}, {"rowIndex", &f.row}}) {
    TORCH_CHECK(!given(*t) || (*t)->numel() == rows, name, " has not one number for each of ", rows, " rows");
  }
  TORCH_CHECK(out.dim() == 2, "the result has ", out.dim(), " dimensions, two are expected");
  TORCH_CHECK(given(f.row) || out.size(0) == rows, "without rowIndex the result has ", rows, " rows, not ",
              out.size(0));
  if (!given(f.shared)) return;
  TORCH_CHECK(f.shared->dim() == 2 && f.shared->size(1) == columns && f.offset >= 0 &&
                  f.offset + f.shared->size(0) <= out.size(0),
              "sharedInput of ", f.shared->sizes(), " from row ", f.offset, " of a result of ", out.sizes());
}

void routed_product(const RoutedFactors& f, Tensor& out) {
  if (out.numel() == 0) return;
  const RoutedLists lists(f);
  Tensor all = grouped_rows(lists.products, lists.groups);
  if (given(f.logit)) all.mul_(wide(*f.logit).reshape({-1, 1}));
  Tensor sum = at::zeros(out.sizes(), all.options());
  const std::vector<int64_t> ends = group_ends(lists.groups);
  const int64_t used = ends.empty() ? 0 : ends.back();
  if (given(f.row)) {
    sum.index_add_(0, f.row->flatten().to(at::kLong).narrow(0, 0, used), all.narrow(0, 0, used));
  } else {
    sum.copy_(all);
  }
  if (given(f.shared)) sum.narrow(0, f.offset, f.shared->size(0)).add_(wide(*f.shared) * f.weight_of_shared);
  put(out, sum);
}

}  // namespace softnpu::ops::kernels
