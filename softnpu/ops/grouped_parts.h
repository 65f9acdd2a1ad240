// One group's operands out of the lists of a grouped product, and what phase one asks of them. Included by the .cpp of the family. What it is
// not: the products (grouped.h).
#pragma once

#include "softnpu/ops/grouped.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {

struct Part {
  Tensor x, w;  // [rows, inner], [inner, columns]
  Tensor bias{}, scale{}, token{}, antiquant{}, antiquant_offset{};
  bool inner_groups = false;  // powers of two lie along the first dimension of both
};
Part row_part(const Grouped& g, int64_t group, int64_t from, int64_t rows, int64_t groups);
Part pair_part(const Grouped& g, int64_t pair);
// Powers of a group of the inner dimension begin at pair floor(start / 64) + group.
Part inner_part(const Grouped& g, int64_t group, int64_t from, int64_t size);
Tensor product_of(Way way, const Part& p);
int64_t grouped_columns(const Grouped& g);
bool has(at::TensorList list);  // whether a member has elements
// What phase one asks of operands of one x, whose results are not the products themselves.
void need_grouped_rows(const Grouped& g, const Groups& groups, int64_t columns);

// Whether a float32 weight holds eight 4-bit floats.
inline bool words(Way way) { return way == Way::kPowers || way == Way::kWeight; }

}  // namespace softnpu::ops::kernels
