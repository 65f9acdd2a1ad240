// See grouped.h.
#include "softnpu/ops/grouped.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include <numeric>

#include "softnpu/ops/grouped_parts.h"
#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/mx_product.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {
namespace {

std::vector<int64_t> listed(const Tensor& numbers) {
  const Tensor list = numbers.to(at::kLong).contiguous();
  return {list.const_data_ptr<int64_t>(), list.const_data_ptr<int64_t>() + list.numel()};
}

// Which groups the list has, in its order; `count` in all.
std::vector<int64_t> group_numbers(const Groups& groups, size_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  if (groups.list_type != 2) return numbers;
  numbers = listed(groups.list->select(1, 0));
  for (const int64_t n : numbers) {
    TORCH_CHECK(n >= 0 && n < static_cast<int64_t>(count), "aclnnGroupedMatmul: groupList names the group ", n, " of ",
                count);
  }
  return numbers;
}

}  // namespace

std::vector<int64_t> group_ends(const Groups& groups) {
  TORCH_CHECK(groups.list && groups.list->defined(), "aclnnGroupedMatmul: groups along an axis need a group list");
  std::vector<int64_t> ends = listed(groups.list_type == 2 ? groups.list->select(1, 1) : *groups.list);
  if (groups.list_type != 0) {
    for (size_t i = 1; i < ends.size(); i++) ends[i] += ends[i - 1];
  }
  return ends;
}

namespace {

Tensor activated(const Tensor& t, int64_t kind) {
  if (kind == 1) return at::relu(t);
  if (kind == 2) return at::gelu(t, "tanh");
  if (kind == 3) return at::gelu(t);
  if (kind == 4) return t * at::sigmoid(t * 1.702);
  return kind == 5 ? at::silu(t) : t;
}

void write(Tensor place, const Tensor& y, int64_t activation) {
  const Tensor value = activated(y, activation);
  place.scalar_type() == at::kChar ? put_rounded(place, value) : put(place, value);
}

// Numbers a column, or one for each of as many groups of inner rows, to numbers of [inner, columns].
Tensor of_inner(const Tensor& t, int64_t inner) {
  const Tensor numbers = scale_values(t);
  if (numbers.dim() < 2) return numbers;
  const int64_t block = t.scalar_type() == at::kFloat8_e8m0fnu ? 32 : inner / numbers.size(0);
  return mx::spread(numbers, 0, block, inner);
}

Tensor weight_of(Way way, const Part& p, at::ScalarType type) {
  if (way == Way::kPowers) {
    const Tensor w = p.w.scalar_type() == at::kFloat ? float4_words(p.w) : p.w;
    const Tensor& powers = p.antiquant.defined() ? p.antiquant : p.scale;
    if (p.inner_groups) return mx::values_of(w, powers, 0);
    return mx_right(w, powers);
  }
  if (way == Way::kPlain) return p.w.to(type);
  const Tensor w = low_values(p.w, words(way)).to(type);
  if (way == Way::kWeight) {
    const Tensor moved = p.antiquant_offset.defined() ? w + of_inner(p.antiquant_offset, w.size(0)) : w;
    return moved * of_inner(p.antiquant, w.size(0));
  }
  if (way == Way::kNarrow) return w * of_inner(p.antiquant, w.size(0));
  return way == Way::kShifted || (way == Way::kWhole && p.scale.dim() == 2) ? w * of_inner(p.scale, w.size(0)) : w;
}

Tensor rows_of(Way way, const Part& p, at::ScalarType type) {
  if (way == Way::kPowers) {
    return p.inner_groups ? mx::values_of(p.x.t(), p.token, 0).t() : mx::values_of(p.x, p.token, -1);
  }
  if (way == Way::kPlain || way == Way::kWeight) return p.x.to(type);
  const Tensor x = low_values(p.x).to(type);
  return way == Way::kShifted ? x - 8 : x;
}

// Products of integers are exact in fp64.
at::ScalarType product_type(Way way, const Tensor& x) {
  const bool exact = way == Way::kWhole || way == Way::kShifted || way == Way::kNarrow;
  return exact || x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

Tensor product_of(Way way, const Part& p) {
  const at::ScalarType type = product_type(way, p.x);
  Tensor y = at::matmul(rows_of(way, p, type), weight_of(way, p, type));
  const bool first = p.bias.defined() && (way == Way::kShifted || !p.bias.is_floating_point());
  if (first) y = y + p.bias.to(type);
  const bool columns = way == Way::kNarrow || way == Way::kNumbers || (way == Way::kWhole && p.scale.dim() < 2);
  if (columns && p.scale.defined()) y = y * scale_values(p.scale).to(type);
  if (way != Way::kPowers && p.token.defined()) y = y * p.token.to(type).unsqueeze(-1);
  return p.bias.defined() && !first ? y + p.bias.to(type) : y;
}

namespace {

// Groups of the inner dimension: a product for each.
void inner_groups(const Grouped& g, const Groups& groups, at::TensorList out) {
  const Way way = way_of(g);
  const std::vector<int64_t> ends = group_ends(groups);
  for (size_t i = 0; i < ends.size(); i++) {
    const int64_t from = i ? ends[i - 1] : 0, n = ends[i] - from;
    TORCH_CHECK(n >= 0 && ends[i] <= g.x[0].size(1), "aclnnGroupedMatmul: group ", i, " ends at ", ends[i], " of ",
                g.x[0].size(1));
    const Tensor place = out.size() == 1 ? out[0][static_cast<int64_t>(i)] : out[i];
    n ? write(place, product_of(way, inner_part(g, static_cast<int64_t>(i), from, n)), groups.activation)
      : void(place.zero_());
  }
}

// Of several x a list of rows says what their sizes say.
void need_rows_of(at::TensorList x, const Groups& groups) {
  if (groups.type != 0 || !groups.list || !groups.list->defined() || groups.list->numel() == 0) return;
  const std::vector<int64_t> ends = group_ends(groups);
  int64_t rows = 0;
  for (size_t i = 0; i < ends.size(); i++) {
    if (i < x.size()) rows += x[i].size(0);
    TORCH_CHECK(i < x.size() && ends[i] == rows, "aclnnGroupedMatmul: groupList ends at ", at::IntArrayRef(ends),
                ", and the ", x.size(), " x do not");
  }
}

void pairs(const Grouped& g, const Groups& groups, at::TensorList out) {
  need_rows_of(g.x, groups);
  const Way way = way_of(g);
  int64_t row = 0;
  for (size_t i = 0; i < g.x.size(); i++) {
    const Tensor y = product_of(way, pair_part(g, static_cast<int64_t>(i)));
    const bool joined = out.size() == 1 && g.x.size() > 1;
    write(joined ? out[0].narrow(0, row, y.size(0)) : out[i], y, groups.activation);
    row += y.size(0);
  }
}

// Calls body(group, first row, product) and returns how many rows there are in groups.
template <class Body>
int64_t row_groups(const Grouped& g, const Groups& groups, const Body& body) {
  const Way way = way_of(g);
  const std::vector<int64_t> ends = group_ends(groups), numbers = group_numbers(groups, ends.size());
  int64_t from = 0;
  for (size_t i = 0; i < ends.size(); i++) {
    const int64_t n = ends[i] - from, group = numbers[i];
    TORCH_CHECK(n >= 0 && ends[i] <= g.x[0].size(0), "aclnnGroupedMatmul: group ", i, " ends at row ", ends[i], " of ",
                g.x[0].size(0));
    body(i, from, product_of(way, row_part(g, group, from, n, static_cast<int64_t>(ends.size()))));
    from = ends[i];
  }
  return from;
}

}  // namespace

void grouped_matmul(const Grouped& g, const Groups& groups, at::TensorList out) {
  if (groups.type == 2) return inner_groups(g, groups, out);
  if (groups.type == -1 || g.x.size() > 1) return pairs(g, groups, out);
  const bool one = out.size() == 1;
  const int64_t used = row_groups(g, groups, [&](size_t i, int64_t from, const Tensor& y) {
    if (y.size(0)) write(one ? out[0].narrow(0, from, y.size(0)) : out[i], y, groups.activation);
  });
  if (one && used < out[0].size(0)) out[0].narrow(0, used, out[0].size(0) - used).zero_();
}

Tensor grouped_rows(const Grouped& g, const Groups& groups) {
  Tensor all = at::zeros({g.x[0].size(0), grouped_columns(g)}, g.x[0].options().dtype(product_type(way_of(g), g.x[0])));
  row_groups(g, groups, [&](size_t, int64_t from, const Tensor& y) { all.narrow(0, from, y.size(0)).copy_(y); });
  return all;
}

Groups groups_of(at::IntArrayRef ends) {
  Groups named;
  if (ends.empty()) return named;
  const Tensor list = at::empty({static_cast<int64_t>(ends.size())}, at::kLong);
  std::copy(ends.begin(), ends.end(), list.mutable_data_ptr<int64_t>());
  named.list = list;
  named.type = 0;
  return named;
}

void grouped_matmul_ends(const Grouped& g, at::IntArrayRef ends, at::TensorList out) {
  grouped_matmul(g, groups_of(ends), out);
}

}  // namespace softnpu::ops::kernels
