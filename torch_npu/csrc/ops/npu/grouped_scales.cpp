// How operands of a grouped product are quantized, which their types say alone, and what their scales must be: see grouped_call.h.
#include "csrc/core/type_name.h"
#include "csrc/ops/npu/grouped_call.h"
#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/mx.h"

namespace npu::ops::grouped {
namespace {

constexpr at::ScalarType kPairs = at::ScalarType::Float4_e2m1fn_x2;

enum class Way {
  kPlain,    // x @ w + bias
  kWhole,    // integers: exact sums, a scale a column and perhaps a row
  kNumbers,  // 8-bit floats with numbers
  kPowers,   // MX: float8_e8m0fnu for 32 numbers of the inner dimension
  kWeight,   // a weight of fewer bits: x @ ((w + antiquant_offset) * antiquant_scale) + bias
  kShifted,  // int8 by int4: ((x - 8) @ (w * scale) + bias) * per_token_scale; the bias has what 8 takes away
  kNarrow,   // int8 by int4 with two scales: (x @ (w * antiquant_scale)) * scale * per_token_scale + bias
};

bool is_whole(Way way) { return way == Way::kWhole || way == Way::kShifted || way == Way::kNarrow; }

bool of_powers(const OptionalList& list) { return has(list) && (*list)[0].scalar_type() == at::kFloat8_e8m0fnu; }
bool eight_bits(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat8_e5m2 || t.scalar_type() == at::kFloat8_e4m3fn || is_hifloat8(t);
}

// Members have the type of the first, one of these. A member without elements stands for none.
void need_types(const char* name, at::TensorList list, std::initializer_list<at::ScalarType> types) {
  for (const at::Tensor& t : list) {
    if (!TORCH_GUARD_OR_TRUE(t.sym_numel().sym_ne(0))) continue;
    need_type(kOp, name, t, types);
    TORCH_CHECK(t.scalar_type() == list[0].scalar_type(), kOp, ": the tensors of ", name, " are ", type_name(list[0]),
                " and ", type_name(t), "; they have one type");
  }
}

Way way_of(const Call& c) {
  const at::ScalarType x = c.x[0].scalar_type();
  if (of_powers(c.scale) || of_powers(c.per_token_scale)) {
    need_types("x", c.x, {at::kFloat8_e5m2, at::kFloat8_e4m3fn, kPairs});
    need_types("weight", c.weight, {at::kFloat8_e5m2, at::kFloat8_e4m3fn, kPairs});
    return Way::kPowers;
  }
  need_types("x", c.x,
             {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kChar, at::kFloat8_e5m2, at::kFloat8_e4m3fn,
              kHifloat8Codes});
  if (is_hifloat8(c.x[0])) {
    need_types("weight of x of hifloat8", c.weight, {kHifloat8Codes});
    return Way::kNumbers;
  }
  if (eight_bits(c.x[0])) {
    need_types("weight", c.weight, {at::kFloat8_e5m2, at::kFloat8_e4m3fn});
    return Way::kNumbers;
  }
  if (x == at::kChar) {
    need_types("weight", c.weight, {at::kChar, at::kInt});
    if (c.weight[0].scalar_type() == at::kChar) return Way::kWhole;
    return has(c.antiquant_scale) ? Way::kNarrow : Way::kShifted;
  }
  if (has(c.antiquant_scale) && c.weight[0].scalar_type() != x) {
    need_types("weight", c.weight, {at::kChar, at::kInt, at::kFloat8_e5m2, at::kFloat8_e4m3fn, kHifloat8Codes});
    return Way::kWeight;
  }
  need_types("weight", c.weight, {x});
  return Way::kPlain;
}

void need_there(const Call& c, const char* name, const OptionalList& list) {
  TORCH_CHECK_VALUE(has(list), kOp, ": ", name, " is needed with x of ", type_name(c.x[0]), " and weight of ",
                    type_name(c.weight[0]));
}

void refuse_there(const Call& c, const char* name, const OptionalList& list) {
  TORCH_CHECK(!has(list), kOp, ": ", name, " does not go with x of ", type_name(c.x[0]), " and weight of ",
              type_name(c.weight[0]), "; leave it out");
}

// The sizes that a scale has for one product: one tensor for a weight of several matrices has them in its first dimension.
Sizes sizes_of_product(const Call& c, const at::Tensor& t) {
  const Sizes sizes = sizes_of(t);
  return c.stacked() && t.dim() > 1 ? Sizes(sizes.begin() + 1, sizes.end()) : sizes;
}

c10::SymBool same(const Sizes& a, const Sizes& b) {
  c10::SymBool all = a.size() == b.size();
  for (size_t d = 0; d < std::min(a.size(), b.size()); ++d) all = all.sym_and(a[d].sym_eq(b[d]));
  return all;
}

// A number for each column, one for all, or where `blocks` of inner rows have their own a row for each.
void need_columns(const char* name, const OptionalList& list, const Call& c, size_t i, int64_t count, bool blocks) {
  const at::Tensor& t = (*list)[list->size() == 1 ? 0 : i];
  const Sizes sizes = sizes_of_product(c, t), w = elements_of(c.weight_of(i));
  const c10::SymInt inner = w[w.size() - 2], columns = w.back(), numbers = c10::multiply_integers(sizes);
  c10::SymBool fits = numbers.sym_eq(1).sym_or(numbers.sym_eq(columns));
  if (sizes.size() == 2) {
    fits = blocks && TORCH_GUARD_OR_TRUE(sizes[0].sym_gt(0))
               ? sizes[1].sym_eq(columns).sym_and((inner % sizes[0]).sym_eq(0))
               : false;
  } else if (c.stacked() && t.dim() == 1) {
    fits = fits.sym_or(sizes[0].sym_eq(count));
  }
  TORCH_SYM_CHECK(fits, kOp, ": ", name, " must have a number for each of ", columns,
                  " columns of weight, it has the sizes ", t.sym_sizes());
}
void need_columns(const char* name, const OptionalList& list, const Call& c, int64_t count, bool blocks) {
  const size_t members = has(list) ? list->size() : 0;
  for (size_t i = 0; i < members; ++i) need_columns(name, list, c, i, count, blocks);
}

// Scales of a weight that has fewer bits than x. A weight of 4-bit integers may have a row of them for each group of inner rows.
void check_antiquant(const Call& c, Way way, int64_t count) {
  if (way != Way::kWeight && way != Way::kNarrow) {
    refuse_there(c, "antiquant_scale", c.antiquant_scale);
    return refuse_there(c, "antiquant_offset", c.antiquant_offset);
  }
  const bool small = eight_bits(c.weight[0]);
  if (way == Way::kNarrow || small) refuse_there(c, "antiquant_offset", c.antiquant_offset);
  for (const auto& [name, list] :
       {std::pair{"antiquant_scale", &c.antiquant_scale}, {"antiquant_offset", &c.antiquant_offset}}) {
    need_types(name, Operand(*list).tensors(), {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
    need_columns(name, *list, c, count, c.weight[0].scalar_type() == at::kInt);
  }
  if (!has(c.antiquant_offset)) return;
  for (size_t i = 0; i < c.antiquant_offset->size(); ++i) {
    need_sizes(kOp, "antiquant_offset", (*c.antiquant_offset)[i], sizes_of((*c.antiquant_scale)[i]));
  }
}

void need_powers(const Call& c, size_t i) {
  const at::Tensor& t = (*c.scale)[c.scale->size() == 1 ? 0 : i];
  Sizes w = elements_of(c.weight_of(i));
  const Sizes turned = mx_scales({w[w.size() - 2], w.back()}, 0).sizes, straight = {turned[1], turned[0], turned[2]};
  const Sizes sizes = sizes_of_product(c, t);
  TORCH_SYM_CHECK(same(sizes, straight).sym_or(same(sizes, turned)), kOp, ": scale must have the sizes [", straight[0],
                  ", ", straight[1], ", 2] or [", turned[0], ", ", turned[1], ", 2] for each matrix of weight, it has ",
                  t.sym_sizes());
}

void check_tokens(const Call& c, Way way, int64_t count) {
  if (!has(c.per_token_scale)) return;
  const at::TensorList tokens = *c.per_token_scale;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const at::Tensor& x = c.x[i];
    if (way == Way::kPowers) {
      need_sizes(kOp, "per_token_scale", tokens[i], mx_scales(elements_of(x), -1).sizes);
    } else if (c.in_groups()) {
      need_elements(kOp, "per_token_scale", tokens[i],
                    way == Way::kNumbers ? Sizes{x.sym_size(0), count} : Sizes{x.sym_size(0)});
    } else {
      TORCH_CHECK(tokens[i].dim() < x.dim(), kOp, ": per_token_scale has ", tokens[i].dim(), " dimensions for x of ",
                  x.dim());
      need_broadcast(kOp, "per_token_scale", tokens[i], without_last(x));
    }
  }
}

// Groups of the inner dimension.
void check_inner_scales(const Call& c, Way way, int64_t count) {
  TORCH_CHECK_NOT_IMPLEMENTED(!is_whole(way) && way != Way::kWeight, kOp, ": group_type 2 with x of ",
                              type_name(c.x[0]), " and weight of ", type_name(c.weight[0]), " is not implemented");
  refuse_there(c, "bias with group_type 2", c.bias);
  const c10::SymInt rows = c.x[0].sym_size(0), inner = c.x[0].sym_size(1), columns = c.weight[0].sym_size(1);
  const std::pair<const char*, const OptionalList&> all[] = {{"scale", c.scale},
                                                             {"per_token_scale", c.per_token_scale}};
  for (const auto& [name, list] : all) {
    if (!has(list)) continue;
    const at::Tensor& t = (*list)[0];
    const c10::SymInt& each = &list == &c.scale ? columns : rows;
    if (way == Way::kPowers) {
      TORCH_CHECK_NOT_IMPLEMENTED(eight_bits(c.x[0]) && eight_bits(c.weight[0]), kOp,
                                  ": group_type 2 with 4-bit floats is not implemented");
      need_sizes(kOp, name, t, {inner / 64 + count, each, 2});
    } else {
      TORCH_CHECK(t.dim() > 0, kOp, ": ", name, " must have ", count, " rows, it has no dimensions");
      TORCH_SYM_CHECK(t.sym_size(0).sym_eq(count), kOp, ": ", name, " must have ", count, " rows, it has the sizes ",
                      t.sym_sizes());
      need_elements(kOp, name, t, {count, each * count});
    }
  }
}

at::ScalarType result_type(const Call& c, Way way) {
  TORCH_CHECK_VALUE(!c.dtype || (*c.dtype >= 0 && *c.dtype < static_cast<int64_t>(at::ScalarType::NumOptions)), kOp,
                    ": output_dtype ", *c.dtype, " is no dtype");
  const at::ScalarType x = c.x[0].scalar_type();
  TORCH_CHECK(c.dtype || way == Way::kPlain || way == Way::kWeight, kOp, ": output_dtype is needed for operands of ",
              type_name(x));
  const auto type = c.dtype ? static_cast<at::ScalarType>(*c.dtype) : x;
  if (type == at::kFloat || type == at::kHalf || type == at::kBFloat16 || type == at::kDouble) {
    if (is_whole(way)) need_there(c, "scale", c.scale);
    return type;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(way == Way::kWhole && (type == at::kChar || type == at::kInt), kOp, ": output_dtype ",
                              type_name(type), " is not implemented for x of ", type_name(x));
  if (type == at::kChar) need_there(c, "scale", c.scale);
  TORCH_CHECK(type == at::kChar || (!has(c.scale) && !has(c.per_token_scale)), kOp,
              ": int32 sums have no scale and no per_token_scale; leave them out, or give another output_dtype");
  return type;
}

}  // namespace

bool has(const OptionalList& list) {
  const at::TensorList members = Operand(list).tensors();
  return std::any_of(members.begin(), members.end(),
                     [](const at::Tensor& t) { return TORCH_GUARD_OR_TRUE(t.sym_numel().sym_ne(0)); });
}

void check_factors(const Call& c) { way_of(c); }

at::ScalarType check_scales(const Call& c, int64_t count) {
  const Way way = way_of(c);
  const auto need = [](const char* name, const OptionalList& list, std::initializer_list<at::ScalarType> types) {
    need_types(name, Operand(list).tensors(), types);
  };
  need("bias", c.bias, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kInt});
  if (way == Way::kPowers) {
    need_there(c, "scale of float8_e8m0fnu", c.scale);
    need_there(c, "per_token_scale of float8_e8m0fnu", c.per_token_scale);
    need("scale", c.scale, {at::kFloat8_e8m0fnu});
    need("per_token_scale", c.per_token_scale, {at::kFloat8_e8m0fnu});
  } else {
    need("scale", c.scale, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kLong, at::kUInt64});
    need("per_token_scale", c.per_token_scale, {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble});
  }
  if (way == Way::kPlain || way == Way::kWeight) {
    refuse_there(c, "scale", c.scale);
    refuse_there(c, "per_token_scale", c.per_token_scale);
  }
  if (way == Way::kNumbers) {
    need_there(c, "scale", c.scale);
    refuse_there(c, "bias", c.bias);
  }
  if (way == Way::kShifted || way == Way::kNarrow) {
    need_there(c, "scale", c.scale);
    need_there(c, "per_token_scale", c.per_token_scale);
  }
  if (way == Way::kShifted) need_there(c, "bias", c.bias);
  check_antiquant(c, way, count);
  const at::ScalarType result = result_type(c, way);
  if (c.type == 2) {
    check_inner_scales(c, way, count);
    return result;
  }
  const size_t scales = has(c.scale) ? c.scale->size() : 0;
  for (size_t i = 0; i < scales && way == Way::kPowers; ++i) need_powers(c, i);
  if (way != Way::kPowers) need_columns("scale", c.scale, c, count, way == Way::kWhole || way == Way::kShifted);
  check_tokens(c, way, count);
  return result;
}

}  // namespace npu::ops::grouped
