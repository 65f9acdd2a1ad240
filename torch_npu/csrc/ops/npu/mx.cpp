// See mx.h. Long because encodings, scales and what ends with them share helpers that nobody else needs.
#include "csrc/ops/npu/mx.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"

namespace npu::ops {
namespace {

constexpr int64_t kMantissa = int64_t{1} << 23;  // of float32
constexpr int64_t kBias = 127, kNan = 255;

struct Element {
  at::ScalarType stored;
  int64_t top;  // the exponent of its largest number
  double largest;
  int64_t mantissa;  // bits, of the 4-bit types; 0 of the others
};
Element element(const char* op, int64_t type) {
  switch (type) {
    case static_cast<int64_t>(at::kFloat8_e5m2):
    case 291:
      return {at::kFloat8_e5m2, 15, 57344, 0};
    case static_cast<int64_t>(at::kFloat8_e4m3fn):
    case 292:
      return {at::kFloat8_e4m3fn, 8, 448, 0};
    case static_cast<int64_t>(at::ScalarType::Float4_e2m1fn_x2):
    case 296:
      return {at::kByte, 2, 6, 1};
    case 297:
      return {at::kByte, 0, 1.75, 2};
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": the type ", type, " is not implemented; float8_e5m2, float8_e4m3fn, ",
                                  "float4_e2m1 (296) and float4_e1m2 (297) are");
  }
}

Element check_form(const char* op, const MxForm& f, const at::Tensor& x, std::initializer_list<int64_t> algorithms) {
  const Element e = element(op, f.type);
  need_type(op, "the operand", x, {at::kFloat, at::kHalf, at::kBFloat16});
  TORCH_CHECK(x.dim() > 0, op, ": the operand has no dimensions");
  const bool four = e.mantissa > 0;
  if (four) {
    check_word(op, "round_mode", f.round, {"rint", "floor", "round"});
    TORCH_SYM_CHECK((x.sym_size(-1) % 2).sym_eq(0), op, ": the last dimension, ", x.sym_size(-1),
                    ", is even for 4-bit types");
  } else {
    check_word(op, "round_mode", f.round, {"rint"});
  }
  check_number(op, "scale_alg", f.alg, algorithms);
  TORCH_CHECK_VALUE(f.alg != 1 || !four, op, ": scale_alg 1 goes with 8-bit types");
  TORCH_CHECK_VALUE(f.alg != 2 || e.mantissa == 1, op, ": scale_alg 2 goes with float4_e2m1");
  TORCH_CHECK_VALUE(f.largest == 0 || f.alg == 2, op, ": dst_type_max ", f.largest, " goes with scale_alg 2");
  TORCH_CHECK_VALUE(f.least == 0 || (f.alg == 1 && f.least > 0), op, ": max_low_bound ", f.least,
                    " is positive and goes with scale_alg 1");
  return e;
}

// The documents round such a block's exponent by bits of its mantissa, which they do not name.
void refuse_rounded_exponent(const char* op, const MxForm& f) {
  TORCH_CHECK_NOT_IMPLEMENTED(f.alg != 2 || (f.largest > 6 && f.largest <= 12 && f.largest != 7), op,
                              ": scale_alg 2 is implemented for dst_type_max above 6 to 12 other than 7, not ",
                              f.largest);
}

at::Tensor floats(const at::Tensor& t) { return t.detach().to(at::kFloat); }
at::Tensor bits_of(const at::Tensor& t) { return t.contiguous().view(at::kInt).to(at::kLong); }

// 2^power, of powers from -64 to 64.
at::Tensor two_to(const at::Tensor& power) { return ((power + kBias) * kMantissa).to(at::kInt).view(at::kFloat); }

// x * 2^power, in two steps that neither overflow nor underflow where the product does not.
at::Tensor shifted(const at::Tensor& x, const at::Tensor& power) {
  const at::Tensor half = power.div(2, "floor");
  return x * two_to(half) * two_to(power - half);
}

// The exponent of a block's scale as float8_e8m0fnu keeps it, from its largest magnitude; int64.
at::Tensor exponents(const at::Tensor& magnitude, const Element& e, const MxForm& f) {
  at::Tensor exponent;
  if (f.alg == 0) {
    exponent = (bits_of(magnitude).div(kMantissa, "floor") - e.top).clamp_min(0);
  } else {
    const at::Tensor most = f.least > 0 ? magnitude.clamp_min(f.least) : magnitude;
    const at::Tensor bits = bits_of(most / (f.largest > 0 ? f.largest : e.largest));
    const at::Tensor whole = bits.div(kMantissa, "floor"), rest = bits - whole * kMantissa;
    at::Tensor up = whole.gt(0).logical_and(whole.lt(254)).logical_and(rest.gt(0));
    if (f.alg == 1) up = up.logical_or(whole.eq(0).logical_and(rest.gt(kMantissa / 2)));
    exponent = whole + up.to(at::kLong);
  }
  return at::where(magnitude.isfinite(), exponent, kNan);
}

at::Tensor nibbles(const at::Tensor& v, const Element& e, std::string_view round) {
  const at::Tensor magnitude = v.abs();
  // Distances of the type's numbers: e2m1 has 0, 0.5, 1, 1.5, 2, 3, 4, 6, e1m2 multiples of 0.25 up to 1.75.
  const at::Tensor step =
      e.mantissa == 1 ? at::where(magnitude.lt(2), 0.5, at::where(magnitude.lt(4), 1.0, 2.0)).to(v.scalar_type())
                      : at::zeros({}, v.options()) + 0.25;
  const at::Tensor q = v / step;
  const at::Tensor whole = round == "floor"  ? q.floor()
                           : round == "rint" ? q.round()
                                             : (q.abs() + 0.5).floor() * q.sign();
  const at::Tensor value = (whole * step).clamp(-e.largest, e.largest), m = value.abs();
  const at::Tensor code = e.mantissa == 1 ? at::where(m.lt(2), m * 2, at::where(m.lt(4), m + 2, m / 2 + 4)) : m * 4;
  return (code + v.lt(0).to(code.scalar_type()) * 8).to(at::kByte);
}

at::Tensor converted(const at::Tensor& v, const Element& e, std::string_view round) {
  if (e.mantissa == 0) return v.clamp(-e.largest, e.largest).to(e.stored);
  const at::Tensor pairs = nibbles(v, e, round).unflatten(-1, {-1, 2});
  return pairs.select(-1, 0) + pairs.select(-1, 1) * 16;
}

at::Tensor padded(const at::Tensor& t, int64_t dim, int64_t count) {
  if (count == 0) return t;
  std::vector<int64_t> pads(static_cast<size_t>(2 * (t.dim() - dim)), 0);
  pads.back() = count;
  return at::constant_pad_nd(t, pads);
}

int64_t up_to(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

at::Tensor block_maxima(const at::Tensor& x, int64_t dim, int64_t block) {
  const int64_t n = known(x, dim);
  return padded(x.abs(), dim, up_to(n, block) - n).unflatten(dim, {-1, block}).amax(dim + 1);
}

at::Tensor spread(const at::Tensor& of_block, int64_t dim, int64_t block, int64_t n) {
  return of_block.repeat_interleave(block, dim).narrow(dim, 0, n);
}

// Scales as they are kept: pairs along the dimension, of which the two lie in a last dimension of their own; an odd count ends with 0.
at::Tensor paired(const at::Tensor& exponent, int64_t dim) {
  const at::Tensor even = padded(exponent, dim, known(exponent, dim) % 2);
  return even.unflatten(dim, {-1, 2}).movedim(dim + 1, -1).to(at::kByte).contiguous();
}

at::Tensor scaled_to(const at::Tensor& x, const at::Tensor& exponent, const Element& e, std::string_view round) {
  const at::Tensor lost = exponent.eq(kNan);
  const at::Tensor v = shifted(x, kBias - exponent.masked_fill(lost, kBias));
  return converted(at::where(lost, 0, v), e, round);
}

Pair along(const at::Tensor& x, int64_t dim, int64_t block, const Element& e, const MxForm& f) {
  const at::Tensor exponent = exponents(block_maxima(x, dim, block), e, f);
  return {scaled_to(x, spread(exponent, dim, block, known(x, dim)), e, f.round), paired(exponent, dim)};
}

// Of each row: the block of `block` rows, counted through the groups, each of which begins one, and the place in it.
struct GroupedRows {
  at::Tensor place, inside;
};
GroupedRows grouped_rows(const at::Tensor& ends, int64_t rows, int64_t block) {
  const int64_t groups = known(ends, 0);
  TORCH_CHECK_VALUE(groups > 0, "a list of groups is empty");
  const at::Tensor end = ends.to(at::kLong);
  const at::Tensor begin = at::cat({at::zeros({1}, end.options()), end.narrow(0, 0, groups - 1)});
  const at::Tensor count = (end - begin + (block - 1)).div(block, "floor"), first = count.cumsum(0) - count;
  const at::Tensor row = at::arange(rows, end.options());
  const at::Tensor group = row.unsqueeze(1).ge(end).sum(1).clamp_max(groups - 1);
  const at::Tensor from = row - begin.index_select(0, group), blocks = from.div(block, "floor");
  return {first.index_select(0, group) + blocks, from - blocks * block};
}

}  // namespace

Pair mx_quantized(const char* op, const at::Tensor& input, int64_t axis, int64_t block, const MxForm& form) {
  const Element e = check_form(op, form, input, {0, 1, 2});
  refuse_rounded_exponent(op, form);
  TORCH_CHECK_VALUE(block > 0 && block <= 1024 && block % 32 == 0, op, ": block_size ", block,
                    " is a multiple of 32 up to 1024");
  return along(floats(input), wrap(input, axis), block, e, form);
}

Quad mx_quantized_twice(const char* op, const at::Tensor& input, const MxForm& form) {
  const Element e = check_form(op, form, input, {0, 1, 2});
  refuse_rounded_exponent(op, form);
  TORCH_CHECK(input.dim() >= 2, op, ": the operand has ", input.dim(), " dimensions, at least 2 are expected");
  const at::Tensor x = floats(input);
  auto [y1, scale1] = along(x, x.dim() - 1, 32, e, form);
  auto [y2, scale2] = along(x, x.dim() - 2, 32, e, form);
  return {y1, scale1, y2, scale2};
}

Triple mx_quantized_squares(const at::Tensor& input, const MxForm& form) {
  const char* const op = "npu_dynamic_block_mx_quant";
  need_dims(op, "input", input, {2, 3});
  const Element e = check_form(op, form, input, {0, 2});
  TORCH_CHECK_VALUE(form.largest == 0 || form.largest == 6 || form.largest == 7, op, ": dst_type_max ", form.largest,
                    " is 0, 6 or 7");
  const at::Tensor x = floats(input);
  const int64_t last = x.dim() - 1, rows = known(x, last - 1), columns = known(x, last);
  const at::Tensor exponent = exponents(block_maxima(block_maxima(x, last, 32), last - 1, 32), e, form);
  const at::Tensor by_row = spread(exponent, last - 1, 32, rows), by_column = spread(exponent, last, 32, columns);
  return {scaled_to(x, spread(by_row, last, 32, columns), e, form.round), paired(by_row, last),
          paired(by_column, last - 1)};
}

Triple mx_quantized_in_levels(const at::Tensor& input, const OptionalTensor& smooth, std::string_view round) {
  const char* const op = "npu_dynamic_dual_level_mx_quant";
  refuse_given(op, "smooth_scale", smooth);
  const MxForm form = {round, 296};
  const Element e = check_form(op, form, input, {0});
  const at::Tensor x = floats(input);
  const int64_t last = x.dim() - 1, n = known(x, last);
  const at::Tensor level0 = block_maxima(x, last, 512) / e.largest;
  const at::Tensor over = spread(at::where(level0.eq(0), 1, level0), last, 512, n);
  auto [y, level1] = along((x / over).to(input.scalar_type()).to(at::kFloat), last, 32, e, form);
  return {y, level0, level1};
}

Pair quantized_groups(const at::Tensor& x, const at::Tensor& ends, double least, int64_t type, int64_t rows,
                      int64_t columns) {
  const char* const op = "npu_grouped_dynamic_block_quant";
  need_dims(op, "x", x, {2, 3});
  need_dims(op, "group_list", ends, {1});
  need_integers(op, "group_list", ends);
  need_type(op, "x", x, {at::kFloat, at::kHalf, at::kBFloat16});
  TORCH_CHECK_VALUE(rows > 0 && columns > 0, op, ": blocks of ", rows, " x ", columns);
  TORCH_CHECK_VALUE(least >= 0, op, ": min_scale ", least, " is negative");
  const Element e = element(op, type);
  TORCH_CHECK_NOT_IMPLEMENTED(e.mantissa == 0, op, ": dst_type ", type, " is not implemented, 8-bit types are");
  const int64_t count = known(x, -2), width = known(x, -1);
  const GroupedRows g = grouped_rows(ends, count, rows);
  const int64_t all = count / rows + known(ends, 0);
  const at::Tensor value = floats(x), most = block_maxima(value, x.dim() - 1, columns);
  std::vector<int64_t> sizes = most.sizes().vec();
  const at::Tensor index = g.place.unsqueeze(1).expand(sizes);
  sizes[sizes.size() - 2] = all;
  at::Tensor scale = at::zeros(sizes, value.options()).scatter_reduce(-2, index, most, "amax") / e.largest;
  if (least > 0) scale = scale.clamp_max(1 / least);
  const at::Tensor of_row = scale.index_select(-2, g.place);
  const at::Tensor over = spread(at::where(of_row.eq(0), 1, of_row), x.dim() - 1, columns, width);
  return {converted(value / over, e, "rint"), scale};
}

Pair mx_quantized_groups(const at::Tensor& x, const at::Tensor& ends, int64_t block, const MxForm& form) {
  const char* const op = "npu_grouped_dynamic_mx_quant";
  need_dims(op, "x", x, {2});
  need_dims(op, "group_index", ends, {1});
  need_integers(op, "group_index", ends);
  const Element e = check_form(op, form, x, {0, 1, 2});
  refuse_rounded_exponent(op, form);
  check_number(op, "blocksize", block, {32});
  const int64_t rows = known(x, 0), columns = known(x, 1);
  // A group has whole pairs of blocks, one after the other.
  const GroupedRows g = grouped_rows(ends, rows, 2 * block);
  const at::Tensor place = g.place * 2 + g.inside.div(block, "floor");
  const int64_t all = 2 * (rows / (2 * block) + known(ends, 0));
  const at::Tensor value = floats(x), index = place.unsqueeze(1).expand({rows, columns});
  const at::Tensor largest = at::zeros({all, columns}, value.options()).scatter_reduce(0, index, value.abs(), "amax");
  const at::Tensor exponent = exponents(largest, e, form);
  return {scaled_to(value, exponent.index_select(0, place), e, form.round), paired(exponent, 0)};
}

at::Tensor mx_values(const at::Tensor& x, const at::Tensor& scale, int64_t axis, int64_t type, int64_t source) {
  const char* const op = "npu_anti_mx_quant";
  TORCH_CHECK(x.dim() > 0, op, ": x has no dimensions");
  TORCH_CHECK_NOT_IMPLEMENTED(wrap(x, axis) == x.dim() - 1, op, ": axis ", axis, " is not implemented, the last is");
  const Element e = element(op, source);
  need_type(op, "x", x, {e.stored});
  need_type(op, "mxscale", scale, {at::kByte, at::kFloat8_e8m0fnu});
  check_number(op, "dst_type", type, {5, 6, 15});
  at::Tensor value;
  if (e.mantissa == 0) {
    value = x.to(at::kFloat);
  } else {
    const at::Tensor packed = x.to(at::kLong), high = packed.div(16, "floor");
    const at::Tensor code = at::stack({packed - high * 16, high}, -1).flatten(-2), minus = code.ge(8);
    const at::Tensor c = (code - minus.to(at::kLong) * 8).to(at::kFloat);
    const at::Tensor magnitude =
        e.mantissa == 1 ? at::where(c.lt(4), c / 2, at::where(c.lt(6), c - 2, c * 2 - 8)) : c / 4;
    value = at::where(minus, -magnitude, magnitude);
  }
  const int64_t n = known(value, -1);
  Sizes sizes = without_last(x);
  sizes.insert(sizes.end(), {(n + 63) / 64, 2});
  need_sizes(op, "mxscale", scale, sizes);
  const at::Tensor kept = (scale.scalar_type() == at::kByte ? scale : scale.view(at::kByte)).to(at::kLong).flatten(-2);
  const at::Tensor exponent = spread(kept, kept.dim() - 1, 32, n), lost = exponent.eq(kNan);
  const at::Tensor out = shifted(value, exponent.masked_fill(lost, kBias) - kBias);
  return out.masked_fill(lost, NAN).to(static_cast<at::ScalarType>(type));
}

Quad mx_normalized(const char* op, const at::Tensor& x1, const OptionalTensor& x2, const at::Tensor& gamma,
                   const OptionalTensor& beta, double eps, const MxForm& form) {
  const Element e = check_form(op, form, x1, {0, 1});
  need_sizes(op, "x2", x2, sizes_of(x1));
  if (given(x2)) need_same_type(op, "x1", x1, "x2", *x2);
  need_sizes(op, "gamma", gamma, {x1.sym_size(-1)});
  need_sizes(op, "beta", beta, {x1.sym_size(-1)});
  const at::Tensor sum = given(x2) ? x1 + *x2 : x1;
  const at::Tensor x = given(x2) ? floats(x1) + floats(*x2) : floats(x1);
  const at::Tensor rstd = at::rsqrt(x.square().mean(-1, true) + eps);
  at::Tensor y = x * rstd * floats(gamma);
  if (given(beta)) y = y + floats(*beta);
  auto [out, scale] = along(y, y.dim() - 1, 32, e, form);
  return {out, sum, scale, x1.requires_grad() ? rstd : at::empty({0}, rstd.options())};
}

at::Tensor permuted_quantized_product(const at::Tensor& x1, const at::Tensor& x2, int64_t type,
                                      const OptionalTensor& scale1, const OptionalTensor& scale2,
                                      at::OptionalIntArrayRef perm1, at::OptionalIntArrayRef perm2,
                                      at::OptionalIntArrayRef perm_out) {
  const char* const op = "npu_transpose_quant_batchmatmul";
  const auto check_perm = [&](const char* name, at::OptionalIntArrayRef perm, at::IntArrayRef one,
                              at::IntArrayRef other) {
    TORCH_CHECK_NOT_IMPLEMENTED(!perm || perm->equals(one) || perm->equals(other), op, ": ", name, " ", *perm,
                                " is not implemented");
  };
  check_perm("perm_x1", perm1, {1, 0, 2}, {1, 0, 2});
  check_perm("perm_x2", perm2, {0, 1, 2}, {0, 2, 1});
  check_perm("perm_y", perm_out, {1, 0, 2}, {1, 0, 2});
  check_number(op, "dtype", type, {static_cast<int64_t>(at::kHalf), static_cast<int64_t>(at::kBFloat16)});
  need_dims(op, "x1", x1, {3});
  for (const auto& [name, t] : {std::pair{"x1", &x1}, {"x2", &x2}}) {
    need_type(op, name, *t, {at::kFloat8_e4m3fn, at::kFloat8_e5m2});
  }
  TORCH_CHECK_VALUE(given(scale1) && given(scale2), op, ": x1_scale and x2_scale are needed");
  const bool turned = perm2 && perm2->equals({0, 2, 1});
  const c10::SymInt rows = x1.sym_size(0), batch = x1.sym_size(1), inner = x1.sym_size(2);
  need_dims(op, "x2", x2, {3});
  need_sizes(op, "x2", x2, turned ? Sizes{batch, -1, inner} : Sizes{batch, inner, -1});
  const at::Tensor by_column = turned ? x2 : x2.transpose(1, 2);  // [batch, columns, inner]
  const c10::SymInt columns = by_column.sym_size(1);
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  at::Tensor out;
  if (scale1->dim() == 4) {
    need_type(op, "x1", x1, {at::kFloat8_e4m3fn});
    need_dims(op, "x2_scale", *scale2, {4});
    const at::Tensor of_column = turned ? *scale2 : scale2->transpose(1, 2);
    const auto values = [](const at::Tensor& t, const at::Tensor& s) {
      return mx_values(t, s, -1, 6, t.scalar_type() == at::kFloat8_e4m3fn ? 292 : 291);
    };
    out = at::matmul(values(x1, *scale1).transpose(0, 1), values(by_column, of_column).transpose(1, 2));
  } else {
    need_sizes(op, "x1_scale", scale1, {rows});
    need_sizes(op, "x2_scale", scale2, {columns});
    need_type(op, "x1_scale", scale1, {at::kFloat});
    need_type(op, "x2_scale", scale2, {at::kFloat});
    out = at::matmul(x1.to(at::kFloat).transpose(0, 1), by_column.to(at::kFloat).transpose(1, 2)) * *scale2 *
          scale1->unsqueeze(-1);
  }
  return out.transpose(0, 1).contiguous().to(static_cast<at::ScalarType>(type));
}

Pair mx_gated(const at::Tensor& x, const OptionalTensor& groups, const MxGate& gate, int64_t group_mode,
              const MxForm& form) {
  const char* const op = "npu_swiglu_mx_quant";
  check_number(op, "swiglu_mode", gate.mode, {0, 1, 2, 3});
  check_number(op, "group_mode", group_mode, {0, 1});
  TORCH_CHECK(x.dim() >= 2, op, ": x has ", x.dim(), " dimensions, at least 2 are expected");
  const int64_t last = x.dim() - 1, dim = wrap(x, gate.dim), axis = wrap(x, gate.axis);
  TORCH_CHECK_VALUE(dim >= last - 1 && axis >= last - 1, op, ": activate_dim and axis are of the last two dimensions");
  TORCH_CHECK_VALUE(dim == last || gate.mode == 0, op, ": swiglu_mode ", gate.mode, " goes with the last activate_dim");
  TORCH_CHECK_VALUE(gate.mode < 2 || axis == last, op, ": swiglu_mode ", gate.mode, " goes with the last axis");
  TORCH_CHECK_NOT_IMPLEMENTED(!given(groups) || (dim == last && axis == last), op,
                              ": group_index is implemented along the last dimension alone");
  if (given(groups)) {
    need_dims(op, "group_index", *groups, {1});
    need_integers(op, "group_index", groups);
  }
  TORCH_CHECK_VALUE(gate.mode == 0 || gate.limit > 0, op, ": clamp_limit ", gate.limit, " is not positive");
  TORCH_CHECK_VALUE(known(x, dim) % 2 == 0, op, ": dimension ", dim, " of ", x.sym_size(dim), " is not even");
  const at::Tensor value = floats(x);
  const int64_t half = known(x, dim) / 2;
  at::Tensor glu, linear;
  if (gate.mode == 1) {
    const at::Tensor pairs = value.unflatten(-1, {half, 2});
    glu = pairs.select(-1, 0);
    linear = pairs.select(-1, 1);
  } else {
    const at::Tensor a = value.narrow(dim, 0, half), b = value.narrow(dim, half, half);
    glu = gate.left ? a : b;
    linear = gate.left ? b : a;
  }
  at::Tensor out;
  if (gate.mode == 0) {
    out = at::silu(glu) * linear;
  } else if (gate.mode == 3) {
    out = at::silu(glu).clamp_max(gate.limit) * linear.clamp(-gate.limit, gate.limit);
  } else {
    glu = glu.clamp_max(gate.limit);
    out = glu * at::sigmoid(glu * gate.alpha) * (linear.clamp(-gate.limit, gate.limit) + gate.bias);
  }
  need_type(op, "x", x, {at::kHalf, at::kBFloat16});
  const Element e = check_form(op, form, out, {0, 1});
  return along(out, axis, 32, e, form);
}

Pair kronecker_quantized(const at::Tensor& x, const at::Tensor& left, const at::Tensor& right,
                         std::optional<double> clip, const std::optional<int64_t>& type,
                         std::optional<double> largest) {
  const char* const op = "npu_kronecker_quant";
  TORCH_CHECK_NOT_IMPLEMENTED(!type || *type == static_cast<int64_t>(at::kInt), op, ": dst_dtype ", *type,
                              " is not implemented, 4-bit integers in int32 are; leave it out");
  TORCH_CHECK_VALUE(largest.value_or(0) == 0, op, ": dst_type_max goes with float4_e2m1");
  need_dims(op, "x", x, {3});
  need_sizes(op, "kronecker_p1", left, {x.sym_size(1), x.sym_size(1)});
  need_sizes(op, "kronecker_p2", right, {x.sym_size(2), x.sym_size(2)});
  need_same_type(op, "x", x, "kronecker_p1", left);
  need_same_type(op, "x", x, "kronecker_p2", right);
  const double ratio = clip.value_or(1);
  TORCH_CHECK_VALUE(ratio > 0 && ratio <= 1, op, ": clip_ratio is above 0 and at most 1, not ", ratio);
  TORCH_CHECK_VALUE(known(x, 2) % 8 == 0, op, ": the last dimension of x, ", x.sym_size(2), ", is a multiple of 8");
  const c10::impl::ExcludeDispatchKeyGuard plain(c10::autocast_dispatch_keyset);
  const at::Tensor turned = at::matmul(floats(left), at::matmul(floats(x), floats(right)));
  const at::Tensor scale = turned.abs().amax({1, 2}) / (7 / ratio);
  const at::Tensor over = at::where(scale.eq(0), 1, scale).unsqueeze(-1).unsqueeze(-1);
  return {int4_pack((turned / over).round().clamp(-8, 7).to(at::kInt)), scale};
}

}  // namespace npu::ops
