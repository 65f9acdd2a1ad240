// See grouped_parts.h.
#include "softnpu/ops/grouped_parts.h"

#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/mx_product.h"

namespace softnpu::ops::kernels {
namespace {

using Sizes = std::vector<int64_t>;

bool has_powers(at::TensorList list) { return has(list) && list[0].scalar_type() == at::kFloat8_e8m0fnu; }

// One tensor with a dimension of groups.
bool stacked(const Grouped& g) { return g.weight.size() == 1 && g.weight[0].dim() == 3; }

const Tensor& member(at::TensorList list, int64_t i) { return list[list.size() == 1 ? 0 : static_cast<size_t>(i)]; }

Tensor weight_of(const Grouped& g, int64_t i) { return stacked(g) ? g.weight[0][i] : member(g.weight, i); }

// Of one tensor for all groups the group's, whatever lies in the other dimensions.
Tensor of_group(at::TensorList list, int64_t i, int64_t dims) {
  if (!has(list)) return {};
  return list.size() == 1 && list[0].dim() > dims ? list[0][i] : member(list, i);
}

// A scale of a weight: [columns], one number, [blocks of inner, columns], or powers of two in pairs.
Tensor of_weight(const Grouped& g, at::TensorList list, int64_t i, int64_t groups) {
  if (!has(list)) return {};
  const Tensor& t = member(list, i);
  if (list.size() > 1 || !stacked(g)) return t;
  if (t.dim() > 1) return t[i];
  return t.size(0) == groups ? t.narrow(0, i, 1) : t;
}

// Lists have a member for each group, or one for all; the one may have them in its first dimension, where its dimensions are more than `dims`.
void need_members(const char* name, at::TensorList list, int64_t groups, int64_t dims) {
  if (!has(list)) return;
  const auto count = static_cast<int64_t>(list.size());
  TORCH_CHECK(count == 1 || count == groups, name, " has ", count, " tensors for ", groups, " groups");
  TORCH_CHECK(count > 1 || list[0].dim() <= dims || list[0].size(0) == groups, name, " has the sizes ", list[0].sizes(),
              " for ", groups, " groups");
}

void need_lists(const Grouped& g, int64_t groups) {
  need_members("weight", g.weight, groups, 2);
  need_members("bias", g.bias, groups, 1);
  const int64_t dims = stacked(g) ? 1 : 64;  // numbers of weights that are no stack are not looked into
  need_members("scale", g.scale, groups, dims);
  need_members("antiquantScale", g.antiquant, groups, dims);
  need_members("antiquantOffset", g.antiquant_offset, groups, dims);
}

Part common(const Grouped& g, int64_t i, int64_t groups) {
  Part p{.x = {}, .w = weight_of(g, i)};
  p.bias = of_group(g.bias, i, 1);
  p.scale = of_weight(g, g.scale, i, groups);
  p.antiquant = of_weight(g, g.antiquant, i, groups);
  p.antiquant_offset = of_weight(g, g.antiquant_offset, i, groups);
  return p;
}

bool integers(at::ScalarType type) { return type == at::kChar || type == at::kInt; }

// -- phase one

struct Wanted {
  const char* name;
  at::TensorList list;
  int state;  // 1 needed, 0 as callers like, -1 not there
};

void need_operands(const Grouped& g, std::array<int, 5> states) {
  const Wanted all[] = {{"scale", g.scale, states[0]},
                        {"perTokenScale", g.token_scale, states[1]},
                        {"antiquantScale", g.antiquant, states[2]},
                        {"antiquantOffset", g.antiquant_offset, states[3]},
                        {"bias", g.bias, states[4]},
                        {"offset", g.offset, -1}};
  for (const auto& [name, list, state] : all) {
    TORCH_CHECK(state != 1 || has(list), name, " is needed with x of ", g.x[0].scalar_type(), " and weight of ",
                g.weight[0].scalar_type());
    TORCH_CHECK(state != -1 || !has(list), name, " does not go with x of ", g.x[0].scalar_type(), " and weight of ",
                g.weight[0].scalar_type());
  }
}

void need_operands(Way way, const Grouped& g) {
  switch (way) {
    case Way::kPlain:
      return need_operands(g, {-1, -1, -1, -1, 0});
    case Way::kWhole:
      return need_operands(g, {0, 0, -1, -1, 0});
    case Way::kShifted:
      return need_operands(g, {1, 1, -1, -1, 1});
    case Way::kNarrow:
      return need_operands(g, {1, 1, 1, -1, 0});
    case Way::kNumbers:
      return need_operands(g, {1, 0, -1, -1, 0});
    case Way::kPowers:
      return need_operands(g, {0, 1, 0, -1, 0});
    case Way::kWeight:
      return need_operands(g, {-1, -1, 1, 0, 0});
  }
}

void need_result(Way way, const Grouped& g, const Tensor& out) {
  if (at::isFloatingType(out.scalar_type())) {
    TORCH_CHECK(way != Way::kWhole || has(g.scale), "scale is needed for a result of ", out.scalar_type());
    return;
  }
  TORCH_CHECK(way == Way::kWhole, "the result of ", g.x[0].scalar_type(), " and ", g.weight[0].scalar_type(),
              " is floating, not ", out.scalar_type());
  const bool plain = out.scalar_type() == at::kInt;
  TORCH_CHECK(has(g.scale) != plain, "a result of ", out.scalar_type(), plain ? " has no scale" : " needs a scale");
  TORCH_CHECK(!plain || !has(g.token_scale), "a result of int32 has no perTokenScale");
}

// Numbers for columns: one each, one, or where `blocks` of the inner dimension have their own a row for each.
void need_columns(const char* name, const Tensor& t, int64_t inner, int64_t columns, bool blocks) {
  if (!t.defined()) return;
  const bool powers = t.scalar_type() == at::kFloat8_e8m0fnu;
  const bool fits = t.dim() == 2
                        ? blocks && t.size(1) == columns &&
                              (powers ? t.size(0) == (inner + 31) / 32 : t.size(0) > 0 && inner % t.size(0) == 0)
                        : !powers && (t.numel() == 1 || t.numel() == columns);
  TORCH_CHECK(fits, name, " of a group has the sizes ", t.sizes(), " for a weight of ", inner, " x ", columns);
}

void need_powers(const Part& p) {
  const Tensor& powers = p.antiquant.defined() ? p.antiquant : p.scale;
  TORCH_CHECK(powers.dim() == 3, "a scale of a group has the sizes ", powers.sizes(),
              ", three dimensions are expected");
  mx_right_turned("scale", p.w.scalar_type() == at::kFloat ? float4_words(p.w) : p.w, powers);
}

void need_part(Way way, const Grouped& g, const Part& p, int64_t columns) {
  const Sizes w = low_sizes(p.w, words(way)), x = low_sizes(p.x);
  TORCH_CHECK(w.size() == 2 && x.size() >= 2 && x.back() == w[0], "x of ", at::IntArrayRef(x), " and a weight of ",
              at::IntArrayRef(w), " have no product");
  TORCH_CHECK(columns < 0 || columns == w[1], "a result of ", columns, " columns for a weight of ", at::IntArrayRef(w));
  TORCH_CHECK(!p.bias.defined() || p.bias.numel() == w[1], "bias of a group has the sizes ",
              p.bias.defined() ? p.bias.sizes() : IntArrayRef(), " for ", w[1], " columns");
  if (way == Way::kPowers) return need_powers(p);
  need_columns("scale", p.scale, w[0], w[1], way == Way::kShifted || way == Way::kWhole);
  need_columns("antiquantScale", p.antiquant, w[0], w[1], true);
  TORCH_CHECK(!p.antiquant_offset.defined() || p.antiquant_offset.sizes() == p.antiquant.sizes(),
              "antiquantOffset of a group has not the sizes of its antiquantScale");
  const Tensor& blocks = p.antiquant.defined() ? p.antiquant : p.scale;
  const bool has_blocks = blocks.defined() && blocks.dim() == 2;
  TORCH_CHECK(g.block == 0 || (has_blocks && (blocks.size(0) * g.block == w[0])), "quantGroupSize is ", g.block,
              ", and a weight of ", at::IntArrayRef(w), " has ", has_blocks ? blocks.size(0) : 0, " groups of scales");
}

void need_tokens(Way way, const Grouped& g, int64_t groups) {
  if (!has(g.token_scale)) return;
  const Tensor &x = g.x[0], &t = g.token_scale[0];
  if (way == Way::kPowers) return need_mx_factor("x", {x, t, false});
  const bool each = t.numel() == x.size(0), one = way == Way::kNumbers && t.numel() == groups;
  TORCH_CHECK(each || one, "perTokenScale has the sizes ", t.sizes(), " for ", x.size(0), " rows");
}

void need_inner(Way way, const Grouped& g, int64_t groups, at::TensorList out) {
  TORCH_CHECK(way == Way::kPlain || way == Way::kNumbers || way == Way::kPowers,
              "groups of the inner dimension of x of ", g.x[0].scalar_type(), " and weight of ",
              g.weight[0].scalar_type(), " are not implemented");
  const Tensor &x = g.x[0], &w = g.weight[0];
  TORCH_CHECK(x.dim() == 2 && w.dim() == 2 && x.size(1) == w.size(0), "x of ", x.sizes(), " and a weight of ",
              w.sizes(), " have no groups of an inner dimension");
  TORCH_CHECK(g.x.size() == 1 && g.weight.size() == 1, g.x.size(), " x and ", g.weight.size(),
              " weights: groups of the inner dimension have one of each");
  TORCH_CHECK(out.size() == 1 || static_cast<int64_t>(out.size()) == groups, out.size(), " results for ", groups,
              " groups");
  for (const at::TensorList& list : {g.scale, g.token_scale}) {
    TORCH_CHECK(!has(list) || list.size() == 1, list.size(),
                " tensors of scales: groups of the inner dimension have one");
  }
  TORCH_CHECK(!has(g.bias), "bias does not go with groups of the inner dimension");
  const int64_t rows = x.size(0), columns = w.size(1), pairs = x.size(1) / 64 + groups;
  if (out.size() == 1) need_size(out[0], {groups, rows, columns}, "out");
  if (way == Way::kPowers) {
    TORCH_CHECK(!mx::packed(x) && !mx::packed(w) && has(g.scale), "groups of the inner dimension have 8-bit floats");
    mx::need_sizes("scale", g.scale[0], {pairs, columns, 2});
    return mx::need_sizes("perTokenScale", g.token_scale[0], {pairs, rows, 2});
  }
  const auto need = [&](const char* name, at::TensorList list, int64_t each) {
    if (!has(list)) return;
    TORCH_CHECK(list[0].size(0) == groups && (list[0].numel() == groups || list[0].numel() == groups * each), name,
                " has the sizes ", list[0].sizes(), " for ", groups, " groups");
  };
  need("scale", g.scale, columns);
  need("perTokenScale", g.token_scale, rows);
}

}  // namespace

bool has(at::TensorList list) {
  return std::any_of(list.begin(), list.end(), [](const Tensor& t) { return t.defined() && t.numel() > 0; });
}

Way way_of(const Grouped& g) {
  const at::ScalarType x = g.x[0].scalar_type(), w = g.weight[0].scalar_type();
  const bool four = w == at::kFloat && has_powers(g.antiquant);
  if (has_powers(g.token_scale) || has_powers(g.scale)) {
    TORCH_CHECK(has_powers(g.token_scale) && has_powers(g.scale) != has_powers(g.antiquant),
                "of MX operands perTokenScale and one of scale and antiquantScale are float8_e8m0fnu");
    TORCH_CHECK(mx::is_small(x) && (mx::is_small(w) || four), "x of ", x, " and weight of ", w, " are no MX operands");
    return Way::kPowers;
  }
  if (integers(x)) {
    TORCH_CHECK(integers(w) && (x == at::kChar || w == x), "x is of ", x, ", weight of ", w);
    if (w == x) return Way::kWhole;
    return has(g.antiquant) ? Way::kNarrow : Way::kShifted;
  }
  if (small_float(x)) {
    TORCH_CHECK(small_floats(x, w), "x is of ", x, ", weight of ", w, ", without scales of float8_e8m0fnu");
    return Way::kNumbers;
  }
  TORCH_CHECK(x == at::kFloat || x == at::kHalf || x == at::kBFloat16 || x == at::kDouble, "x of ", x,
              " has no scales of float8_e8m0fnu");
  if (w == x && !four) return Way::kPlain;
  const bool bits = integers(w) || small_float(w), powers = four || w == at::ScalarType::Float4_e2m1fn_x2;
  TORCH_CHECK(has(g.antiquant) && (bits || powers), "x is of ", x, ", weight of ", w,
              has(g.antiquant) ? "" : ", without antiquantScale");
  TORCH_CHECK(powers == has_powers(g.antiquant), "antiquantScale is of ", g.antiquant[0].scalar_type(),
              " with a weight of ", w);
  return Way::kWeight;
}

Part row_part(const Grouped& g, int64_t i, int64_t from, int64_t rows, int64_t groups) {
  Part p = common(g, i, groups);
  p.x = g.x[0].narrow(0, from, rows);
  if (!has(g.token_scale)) return p;
  const Tensor& t = g.token_scale[0];
  if (t.scalar_type() == at::kFloat8_e8m0fnu) {
    p.token = t.narrow(0, from, rows);
  } else {
    const Tensor flat = t.flatten();
    p.token = flat.numel() == g.x[0].size(0) ? flat.narrow(0, from, rows) : flat.narrow(0, i, 1);
  }
  return p;
}

Part pair_part(const Grouped& g, int64_t i) {
  Part p = common(g, i, static_cast<int64_t>(g.x.size()));
  p.x = g.x[static_cast<size_t>(i)];
  if (has(g.token_scale)) p.token = member(g.token_scale, i);
  return p;
}

Part inner_part(const Grouped& g, int64_t i, int64_t from, int64_t size) {
  Part p{.x = g.x[0].narrow(1, from, size), .w = member(g.weight, i).narrow(0, from, size)};
  p.inner_groups = true;
  const auto of = [&](at::TensorList list) {
    if (!has(list)) return Tensor();
    const Tensor& t = list[0];
    if (t.scalar_type() == at::kFloat8_e8m0fnu) return t.narrow(0, from / 64 + i, (size + 63) / 64);
    return t.dim() == 1 ? t.narrow(0, i, 1) : t[i];
  };
  p.scale = of(g.scale);
  p.token = of(g.token_scale);
  return p;
}

int64_t grouped_columns(const Grouped& g) { return low_sizes(weight_of(g, 0), words(way_of(g)))[1]; }

void need_grouped_rows(const Grouped& g, const Groups& groups, int64_t columns) {
  TORCH_CHECK(g.x[0].dim() == 2, "x has ", g.x[0].dim(), " dimensions, two are expected");
  const Way way = way_of(g);
  const int64_t count = stacked(g) ? g.weight[0].size(0) : static_cast<int64_t>(g.weight.size());
  TORCH_CHECK(groups.list_type == 0 || groups.list_type == 1, "the group list type ", groups.list_type,
              " is not implemented");
  TORCH_CHECK(groups.list && groups.list->numel() == count, "groupList has ", groups.list ? groups.list->numel() : 0,
              " numbers for ", count, " experts");
  need_operands(way, g);
  need_lists(g, count);
  need_tokens(way, g, count);
  for (int64_t i = 0; i < count; i++) {
    Part p = common(g, i, count);
    p.x = g.x[0];
    need_part(way, g, p, columns);
  }
}

void need_grouped(const Grouped& g, const Groups& groups, at::TensorList out) {
  const char* const op = "aclnnGroupedMatmul";
  TORCH_CHECK(!g.x.empty() && !g.weight.empty() && !out.empty(), op, ": x, weight and out have no members");
  TORCH_CHECK(groups.type == -1 || groups.type == 0 || groups.type == 2, op, ": the group type ", groups.type,
              " is not -1, 0 or 2");
  TORCH_CHECK(groups.list_type >= 0 && groups.list_type <= 2, op, ": the group list type ", groups.list_type,
              " is not 0, 1 or 2");
  TORCH_CHECK(groups.activation >= 0 && groups.activation <= 5, op, ": the activation ", groups.activation,
              " is not 0 to 5");
  const Way way = way_of(g);
  need_operands(way, g);
  for (const Tensor& t : out) need_result(way, g, t);
  TORCH_CHECK(way != Way::kNumbers || !has(g.bias), "bias does not go with 8-bit floats whose scales are numbers");
  const bool alone = groups.type == -1 || g.x.size() > 1;
  const bool pairs = groups.list_type == 2;
  TORCH_CHECK(!pairs || (groups.type == 0 && !alone && out.size() == 1), op, ": the group list type 2 goes with the ",
              "group type 0, one x and one result");
  const bool there = groups.list && groups.list->defined();
  TORCH_CHECK(!pairs || !there || (groups.list->dim() == 2 && groups.list->size(1) == 2), op,
              ": groupList has the sizes ", there ? groups.list->sizes() : IntArrayRef(),
              ", rows of two numbers are expected with the group list type 2");
  const int64_t listed = !there ? 0 : pairs ? groups.list->size(0) : groups.list->numel();
  TORCH_CHECK(alone || there, op, ": groupList is needed with the group type ", groups.type);
  if (groups.type == 2) return need_inner(way, g, listed, out);
  const int64_t count = stacked(g) ? g.weight[0].size(0) : static_cast<int64_t>(g.weight.size());
  const int64_t parts = alone ? static_cast<int64_t>(g.x.size()) : listed;
  TORCH_CHECK(count == parts, op, ": ", count, " weights for ", parts, alone ? " x" : " groups of groupList");
  TORCH_CHECK(out.size() == 1 || static_cast<int64_t>(out.size()) == parts, op, ": ", out.size(), " results for ",
              parts, " groups");
  need_lists(g, parts);
  if (alone) need_members("perTokenScale", g.token_scale, parts, 64);
  if (!alone) need_tokens(way, g, count);
  for (int64_t i = 0; i < parts; i++) {
    Part p = common(g, i, count);
    p.x = g.x[alone ? static_cast<size_t>(i) : 0];
    const Tensor& place = out[out.size() == 1 ? 0 : static_cast<size_t>(i)];
    if (p.x.dim() >= 2) need_part(way, g, p, place.dim() ? place.size(-1) : -1);
  }
}

void need_grouped_ends(const Grouped& g, at::IntArrayRef ends, int64_t split, at::TensorList out) {
  const char* const op = "aclnnGroupedMatmul";
  TORCH_CHECK(split >= 0 && split <= 3, op, ": splitItem ", split, " is not 0 to 3");
  TORCH_CHECK(split < 2 || out.size() == 1, op, ": splitItem ", split, " makes one result, there are ", out.size());
  TORCH_CHECK(ends.empty() || g.x.size() == 1, op, ": a groupList goes with one x, there are ", g.x.size());
  const size_t groups = ends.empty() ? g.x.size() : ends.size();
  TORCH_CHECK(split > 1 || out.size() == groups, op, ": splitItem ", split, " makes ", groups, " results, there are ",
              out.size());
  need_grouped(g, groups_of(ends), out);
}

}  // namespace softnpu::ops::kernels
