// Results of experts summed by token, where some experts are no networks: zero, a copy of the token, or a mix with a constant.
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/expert_rows.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

constexpr const char* kOp = "aclnnMoeFinalizeRoutingV4";

Tensor in_range(const Tensor& experts, IntArrayRef range) {
  return range.empty() ? experts.lt(0).logical_and(experts.ge(0))
                       : experts.ge(range[0]).logical_and(experts.lt(range[1]));
}

Tensor rows_of(const Tensor& rows, const Tensor& index) {
  const Tensor there = index.ge(0).logical_and(index.lt(rows.size(0)));
  if (rows.size(0) == 0) return at::zeros({index.numel(), rows.size(1)}, wide(rows).options());
  return wide(rows.index_select(0, at::where(there, index, 0))).masked_fill(there.logical_not().unsqueeze(1), 0);
}

}  // namespace

void moe_sum_kinds(const Tensor& expanded, const Tensor& rows, const ExpertTerms& terms, const ExpertKinds& kinds,
                   int64_t mode, int64_t k, Tensor& out) {
  TORCH_CHECK(mode >= 0 && mode <= 3, kOp, ": dropPadMode ", mode, " is not 0 to 3");
  TORCH_CHECK(out.dim() == 2, kOp, ": out is ", out.sizes(), ", two dimensions are expected");
  const int64_t count = out.size(0), choices = count ? rows.numel() / count : 0;
  TORCH_CHECK(choices * count == rows.numel() && (k <= 1 || k == choices), kOp, ": expandedRowIdx has ", rows.numel(),
              " numbers for ", count, " rows and k ", k);
  bool special = false;
  for (const IntArrayRef range : {kinds.zero, kinds.copy, kinds.constant}) {
    TORCH_CHECK(range.empty() || range.size() == 2, kOp, ": a range of experts has ", range.size(), " numbers, not 2");
    special = special || !range.empty();
  }
  TORCH_CHECK(!special || passed(terms.experts), kOp, ": ranges of experts need expertIdx");
  TORCH_CHECK(!passed(terms.bias) || passed(terms.experts), kOp, ": a bias needs expertIdx");
  TORCH_CHECK((kinds.copy.empty() && kinds.constant.empty()) || passed(kinds.x), kOp,
              ": experts that copy and constant ones need x");
  TORCH_CHECK(kinds.constant.empty() || (passed(kinds.alpha1) && passed(kinds.alpha2) && passed(kinds.v)), kOp,
              ": constant experts need a1, a2 and v");
  Tensor sum = at::zeros(out.sizes(), wide(out).options());
  for (const OptionalTensor* skip : {&terms.x1, &terms.x2}) {
    if (passed(*skip)) sum.add_(wide(**skip));
  }
  const Tensor flat = expanded.reshape({-1, out.size(1)}), index = rows.to(at::kLong);
  const Tensor places = mode < 2 ? index.reshape({choices, count}) : index.reshape({count, choices}).t();
  for (int64_t i = 0; i < choices; i++) {
    Tensor part = rows_of(flat, places[i]), expert;
    if (passed(terms.experts)) expert = terms.experts->select(1, i).to(at::kLong);
    if (!kinds.copy.empty()) part = at::where(in_range(expert, kinds.copy).unsqueeze(1), wide(*kinds.x), part);
    if (!kinds.constant.empty()) {
      const Tensor own = in_range(expert, kinds.constant), at_row = at::where(own, expert - kinds.constant[0], 0);
      const auto of = [&](const OptionalTensor& t) { return wide(*t).index_select(0, at_row); };
      const Tensor mixed = of(kinds.alpha1) * wide(*kinds.x) + of(kinds.alpha2) * of(kinds.v);
      part = at::where(own.unsqueeze(1), mixed, part);
    }
    if (passed(terms.bias)) {
      const Tensor known = expert.ge(0).logical_and(expert.lt(terms.bias->size(0)));
      part = part + rows_of(*terms.bias, at::where(known, expert, -1));
    }
    if (passed(terms.scales)) part = part * wide(*terms.scales).select(1, i).unsqueeze(1);
    if (!kinds.zero.empty()) part = part.masked_fill(in_range(expert, kinds.zero).unsqueeze(1), 0);
    sum.add_(part);
  }
  put(out, sum);
}

}  // namespace softnpu::ops::kernels
