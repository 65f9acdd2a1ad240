// See mx_product.h. Long because the forms of two factors share the checks of their sizes and scales.
#include "softnpu/ops/mx_product.h"

#include <ATen/ops/cumsum.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/block_product.h"
#include "softnpu/ops/fused_quant.h"
#include "softnpu/ops/grouped_parts.h"
#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/quantize.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {

using mx::packed;
using Sizes = std::vector<int64_t>;

namespace {

bool powers(const Tensor& t) { return t.scalar_type() == at::kFloat8_e8m0fnu; }

Tensor ends_of(const Tensor& list, int64_t type) {
  const Tensor flat = list.flatten().to(at::kLong).contiguous();
  return type == 0 ? flat : at::cumsum(flat, 0);
}

}  // namespace

// Of rows and columns: the batches broadcast.
Sizes product_sizes(const Sizes& a, const Sizes& b) {
  const Sizes& longer = a.size() >= b.size() ? a : b;
  Sizes out(longer.begin(), longer.end() - 2);
  out.push_back(a[a.size() - 2]);
  out.push_back(b[b.size() - 2]);
  return out;
}

void need_result(const Sizes& wanted, const Tensor& out) {
  TORCH_CHECK(out.sizes() == at::IntArrayRef(wanted), "the result has the sizes ", out.sizes(), ", ",
              at::IntArrayRef(wanted), " are expected");
}

void need_bias(const Maybe& bias, int64_t columns) {
  TORCH_CHECK(!given(bias) || (bias->size(-1) == columns && (bias->numel() == columns || bias->dim() == 3)),
              "bias has the sizes ", given(bias) ? bias->sizes() : at::IntArrayRef(), " for ", columns, " columns");
}

void need_numbers(const char* name, const Tensor& t, std::initializer_list<int64_t> counts) {
  for (const int64_t n : counts) {
    if (t.numel() == n) return;
  }
  TORCH_CHECK(false, name, " has ", t.numel(), " numbers, one of ", at::IntArrayRef(counts), " is expected");
}

bool of_powers(const Maybe& scale) { return passed(scale) && powers(*scale); }

std::vector<int64_t> mx_sizes(const MxFactor& f) {
  Sizes sizes = mx::sizes_of(f.t);
  if (f.turned) std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  return sizes;
}

Tensor mx_rows(const MxFactor& f) {
  const Tensor values = mx::values_of(f.t, f.scale, f.turned ? -2 : -1);
  return f.turned ? values.transpose(-1, -2) : values;
}

void need_mx_factor(const char* name, const MxFactor& f) {
  TORCH_CHECK(mx::is_small(f.t.scalar_type()) && powers(f.scale), name, " of ", f.t.scalar_type(), " with scales of ",
              f.scale.scalar_type(), " is no MX operand");
  TORCH_CHECK(f.t.dim() >= 2, name, " has ", f.t.dim(), " dimensions, two are expected");
  const Sizes sizes = mx::sizes_of(f.t);
  const Sizes wanted = mx::scale_sizes(sizes, f.t.dim() - (f.turned ? 2 : 1), 32);
  TORCH_CHECK(f.scale.sizes() == at::IntArrayRef(wanted), name, " of the sizes ", at::IntArrayRef(sizes),
              " has scales of ", f.scale.sizes(), ", ", at::IntArrayRef(wanted), " are expected");
}

bool mx_scale_turned(const char* name, const Tensor& scale, at::IntArrayRef rows, std::optional<bool> either) {
  const Sizes straight = mx::scale_sizes(rows, static_cast<int64_t>(rows.size()) - 1, 32);
  Sizes turned = straight;
  std::swap(turned[turned.size() - 2], turned[turned.size() - 3]);
  const bool one = scale.sizes() == at::IntArrayRef(straight), other = scale.sizes() == at::IntArrayRef(turned);
  TORCH_CHECK(one || other, name, " has the sizes ", scale.sizes(), ", ", at::IntArrayRef(straight), " or ",
              at::IntArrayRef(turned), " are expected");
  TORCH_CHECK_NOT_IMPLEMENTED(!(one && other) || either, name, " of ", scale.sizes(),
                              " may lie in two ways, and the documents differ; it is not implemented");
  return one && other ? *either : other;
}

bool mx_right_turned(const char* name, const Tensor& right, const Tensor& scale) {
  return mx_scale_turned(name, scale, mx::sizes_of(right.transpose(-1, -2)), right.stride(-2) != 1);
}

Tensor mx_right(const Tensor& right, const Tensor& scale) {
  const bool turned = mx_right_turned("scale", right, scale);
  return mx::values_of(right.transpose(-1, -2), turned ? scale.transpose(-2, -3) : scale, -1).transpose(-1, -2);
}

Tensor mx_product(const MxFactor& left, const MxFactor& right) {
  return at::matmul(mx_rows(left), mx_rows(right).transpose(-1, -2));
}

void need_mx_group(int64_t sizes) {
  const int64_t inner = sizes & 0xFFFF, columns = (sizes >> 16) & 0xFFFF, rows = (sizes >> 32) & 0xFFFF;
  TORCH_CHECK((rows | columns) <= 1 && (inner == 0 || inner == 32), "groupSize is of ", rows, " rows, ", columns,
              " columns and ", inner, " inner numbers; MX operands have 1, 1 and 32");
}

// -- two factors

namespace {

// How factors are quantized: `kBlocks` with numbers for blocks of 128, `kShifted` 4-bit integers with a scale and an offset for 256 inner ones,
// `kMixed` int8 by int4.
enum class Kind { kPowers, kGroups, kIntegers, kNumbers, kBlocks, kShifted, kMixed };

// A right factor of eight 4-bit floats in a float32 as 4-bit floats.
Tensor right_of(const QuantFactors& f) { return f.b.scalar_type() == at::kFloat ? float4_words(f.b) : f.b; }

Kind kind_of(const QuantFactors& f) {
  const at::ScalarType a = f.a.scalar_type(), b = f.b.scalar_type();
  const bool four = b == at::kFloat || packed(f.b);
  if (powers(f.b_scale)) return Kind::kPowers;
  TORCH_CHECK(!of_powers(f.a_scale), "x1Scale is of float8_e8m0fnu, and x2Scale of ", f.b_scale.scalar_type());
  if (four && a == at::kFloat8_e4m3fn && given(f.y_scale)) return Kind::kGroups;
  TORCH_CHECK(!packed(f.a), "x1 of 4-bit elements needs scales of float8_e8m0fnu");
  TORCH_CHECK(!four, "x2 of ", b,
              " holds 4-bit floats, which need scales of float8_e8m0fnu, or x1 of float8_e4m3fn and yScale");
  const bool whole = a == at::kChar || a == at::kInt;
  if (a == at::kChar && b == at::kInt) return Kind::kMixed;
  TORCH_CHECK(whole ? a == b : small_floats(a, b), "x1 is of ", a, ", x2 of ", b);
  if (a != at::kInt && (f.group == kRowBlocks || f.group == kSquareBlocks)) return Kind::kBlocks;
  if (!whole) return Kind::kNumbers;
  return a == at::kInt && f.b_scale.dim() == 2 && given(f.offset) ? Kind::kShifted : Kind::kIntegers;
}

void need_powers(const QuantFactors& f, const Tensor& out) {
  TORCH_CHECK(passed(f.a_scale), "x1Scale is needed with MX operands");
  TORCH_CHECK(!given(f.offset), "x2Offset does not go with MX operands");
  TORCH_CHECK(f.b.scalar_type() != at::kFloat || f.a.scalar_type() == at::kFloat8_e4m3fn, "x1 is of ",
              f.a.scalar_type(), ", float8_e4m3fn goes with eight 4-bit floats in a float32");
  const Tensor right_factor = right_of(f);
  const MxFactor a{f.a, *f.a_scale, f.turned_a}, b{right_factor, f.b_scale, !f.turned_b};
  need_mx_factor("x1", a);
  need_mx_factor("x2", b);
  need_mx_group(f.group);
  const Sizes left = mx_sizes(a), right = mx_sizes(b);
  TORCH_CHECK(left.back() == right.back(), "the inner sizes are ", left.back(), " and ", right.back());
  need_bias(f.bias, right[right.size() - 2]);
  TORCH_CHECK(at::isFloatingType(out.scalar_type()), "the result of MX operands is floating, not ", out.scalar_type());
  need_result(product_sizes(left, right), out);
}

// The right factor's scales, one for 32 of the inner dimension: [columns, inner / 32], or turned as the factor is.
void need_groups(const QuantFactors& f, const Tensor& out) {
  const Sizes right = low_sizes(f.b, true), left = f.a.sizes().vec();
  TORCH_CHECK(left.size() == 2 && right.size() == 2 && !f.turned_a, "x1 of ", f.a.sizes(), " and x2 of ", f.b.sizes(),
              " are two matrices, x1 not transposed");
  const int64_t inner = right[f.turned_b ? 1 : 0], columns = right[f.turned_b ? 0 : 1];
  TORCH_CHECK(left[1] == inner && inner % 32 == 0, "the inner sizes are ", left[1], " and ", inner,
              ", one multiple of 32 is expected");
  const Sizes wanted = f.turned_b ? Sizes{columns, inner / 32} : Sizes{inner / 32, columns};
  mx::need_sizes("x2Scale", f.b_scale, wanted);
  // Not in ops/types.yaml: what is absent may be a tensor of any type without elements.
  TORCH_CHECK(wide_bits(*f.y_scale), "yScale is of ", f.y_scale->scalar_type(), ", not int64 or uint64");
  need_numbers("yScale", *f.y_scale, {columns});
  need_mx_group(f.group);
  TORCH_CHECK(!given(f.a_scale) && !given(f.bias) && !given(f.offset),
              "x1Scale, bias and x2Offset do not go with yScale");
  TORCH_CHECK(out.scalar_type() == f.b_scale.scalar_type(), "x2Scale is of ", f.b_scale.scalar_type(), ", out of ",
              out.scalar_type());
  need_result({left[0], columns}, out);
}

void need_numbered(const QuantFactors& f, bool whole, const Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(f.group == 0, "groupSize is ", f.group,
                              "; [1, 128, 128] with int8 or 8-bit floats, [128, 128, 128] with these and [0, 0, ",
                              "256] with 4-bit integers, x2Scale of groups and x2Offset are implemented");
  TORCH_CHECK(!given(f.offset) || f.offset->scalar_type() == at::kFloat, "x2Offset is of ", f.offset->scalar_type(),
              ", float32 is expected; float16 goes with 4-bit integers and x2Scale of groups");
  TORCH_CHECK(f.a.dim() >= 2 && f.b.dim() >= 2, "factors of ", f.a.sizes(), " and ", f.b.sizes());
  TORCH_CHECK(f.a.scalar_type() != at::kInt || !f.turned_a, "x1 of int4 is not transposed");
  const auto sizes = [](const Tensor& t, bool turned) {
    Sizes all = low_sizes(t);
    if (turned) std::swap(all[all.size() - 1], all[all.size() - 2]);
    return all;
  };
  const Sizes left = sizes(f.a, f.turned_a), right = sizes(f.b, !f.turned_b);
  const int64_t rows = left[left.size() - 2], columns = right[right.size() - 2];
  TORCH_CHECK(left.back() == right.back(), "the inner sizes are ", left.back(), " and ", right.back());
  if (given(f.a_scale)) need_numbers("x1Scale", *f.a_scale, {1, rows});
  need_numbers("x2Scale", f.b_scale, {1, columns});
  need_bias(f.bias, columns);
  need_result(product_sizes(left, right), out);
  if (whole) return;
  TORCH_CHECK(!wide_bits(f.b_scale) || !given(f.a_scale), "x1Scale does not go with x2Scale of ",
              f.b_scale.scalar_type());
  TORCH_CHECK(at::isFloatingType(out.scalar_type()) && !given(f.offset), "the result of 8-bit floats is floating, ",
              "without x2Offset, not ", out.scalar_type());
}

}  // namespace

void need_quant_product(const QuantFactors& f, const Tensor& out) {
  const Kind kind = kind_of(f);
  TORCH_CHECK(kind == Kind::kGroups || !given(f.y_scale), "yScale goes with x1 of float8_e4m3fn and x2 of float4_e2m1");
  TORCH_CHECK(kind == Kind::kMixed || !given(f.y_offset), "yOffset goes with x1 of int8 and x2 of int4");
  if (kind == Kind::kPowers) return need_powers(f, out);
  if (kind == Kind::kGroups) return need_groups(f, out);
  if (kind == Kind::kBlocks) return need_block_product(f, out);
  if (kind == Kind::kShifted) return need_shifted_product(f, out);
  if (kind == Kind::kMixed) return need_mixed_product(f, out);
  need_numbered(f, kind == Kind::kIntegers, out);
}

void quant_product(const QuantFactors& f, Tensor& out) {
  if (out.numel() == 0) return;
  const Kind kind = kind_of(f);
  if (kind == Kind::kPowers) {
    const Tensor right = right_of(f);
    Tensor value = mx_product({f.a, *f.a_scale, f.turned_a}, {right, f.b_scale, !f.turned_b});
    if (given(f.bias)) value = value + mx::floats(*f.bias);
    return put(out, value);
  }
  if (kind == Kind::kGroups) {
    const Tensor values = low_values(f.b, true), weight = f.turned_b ? values.t() : values;
    const Tensor scale = f.turned_b ? f.b_scale.t() : f.b_scale;
    const Tensor right = weight * mx::spread(mx::floats(scale), 0, 32, weight.size(0));
    return put(out, at::matmul(mx::floats(f.a), right) * scale_values(*f.y_scale).flatten());
  }
  if (kind == Kind::kBlocks) return put(out, block_product(f));
  if (kind == Kind::kShifted) return put(out, shifted_product(f));
  if (kind == Kind::kMixed) return put(out, mixed_product(f));
  if (kind == Kind::kIntegers) {
    return quant_matmul(f.a, f.b, f.a_scale, f.b_scale, f.offset, f.bias, f.turned_a, f.turned_b, out);
  }
  const Tensor left = f.turned_a ? f.a.transpose(-1, -2) : f.a, right = f.turned_b ? f.b.transpose(-1, -2) : f.b;
  const Tensor scale = f.b_scale.flatten();
  if (wide_bits(scale)) {  // of such a scale the bias is not a part
    Tensor sum = at::matmul(mx::floats(left), mx::floats(right));
    if (given(f.bias)) sum = sum + mx::floats(*f.bias);
    return put(out, sum * scale_values(scale));
  }
  const Maybe rows = given(f.a_scale) ? Maybe(f.a_scale->flatten()) : Maybe();
  put(out, quantized_product(left, right, rows, scale, f.bias));
}

void need_level_product(const LevelFactors& f, const Tensor& out) {
  TORCH_CHECK(f.level0 == 512 && f.level1 == 32, "groups of ", f.level0, " and ", f.level1, " are not 512 and 32");
  TORCH_CHECK(!f.turned_a && f.turned_b, "transposeX1 is false and transposeX2 true");
  const MxFactor a{f.a, f.a1, false}, b{f.b, f.b1, false};
  need_mx_factor("x1", a);
  need_mx_factor("x2", b);
  const Sizes left = mx_sizes(a), right = mx_sizes(b);
  TORCH_CHECK(left.size() == 2 && right.size() == 2 && left[1] == right[1], "factors of ", at::IntArrayRef(left),
              " and ", at::IntArrayRef(right));
  const int64_t blocks = (left[1] + 511) / 512;
  mx::need_sizes("x1Level0Scale", f.a0, {left[0], blocks});
  mx::need_sizes("x2Level0Scale", f.b0, {blocks, right[0]});
  need_bias(f.bias, right[0]);
  need_result({left[0], right[0]}, out);
}

void level_product(const LevelFactors& f, Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor a = mx_rows({f.a, f.a1, false}), b = mx_rows({f.b, f.b1, false});
  const int64_t inner = a.size(1);
  const Tensor left = a * mx::spread(f.a0, 1, 512, inner), right = b * mx::spread(f.b0.t(), 1, 512, inner);
  Tensor value = at::matmul(left, right.t());
  if (given(f.bias)) value = value + mx::floats(*f.bias);
  put(out, value);
}

// -- batches: [rows, batch, inner] and [batch, inner, columns] give [rows, batch, columns]

void need_batch_product(const BatchFactors& f, const Maybe& bias, const Tensor& out) {
  const auto need_perm = [](const char* name, at::IntArrayRef perm, at::IntArrayRef one, at::IntArrayRef other) {
    TORCH_CHECK(perm == one || perm == other, name, " is ", perm, ", not ", one, one == other ? "" : " or another");
  };
  need_perm("permX1", f.perm_a, {1, 0, 2}, {1, 0, 2});
  need_perm("permX2", f.perm_b, {0, 1, 2}, {0, 2, 1});
  need_perm("permY", f.perm_out, {1, 0, 2}, {1, 0, 2});
  TORCH_CHECK(!given(bias), "bias is not implemented");
  TORCH_CHECK(f.split == 1, "batchSplitFactor is ", f.split, ", not 1");
  const int64_t own = out.scalar_type() == at::kHalf ? 1 : out.scalar_type() == at::kBFloat16 ? 27 : -1;
  TORCH_CHECK(f.type == own, "dtype ", f.type, " is not that of the result, float16 (1) or bfloat16 (27)");
  TORCH_CHECK(given(f.a_scale) && given(f.b_scale), "x1Scale and x2Scale are needed");
  TORCH_CHECK(f.a.dim() == 3 && f.b.dim() == 3, "x1 and x2 have ", f.a.dim(), " and ", f.b.dim(),
              " dimensions, three are expected");
  const bool turned = f.perm_b == at::IntArrayRef({0, 2, 1});
  const int64_t rows = f.a.size(0), batch = f.a.size(1), inner = f.a.size(2), columns = f.b.size(turned ? 1 : 2);
  TORCH_CHECK(f.b.size(0) == batch && f.b.size(turned ? 2 : 1) == inner, "x2 is ", f.b.sizes(), " for x1 of ",
              f.a.sizes());
  need_result({rows, batch, columns}, out);
  if (powers(*f.b_scale)) {
    need_mx_group(f.group);
    need_mx_factor("x1", {f.a, *f.a_scale, false});
    return need_mx_factor("x2", {f.b, *f.b_scale, !turned});
  }
  for (const auto& [name, t, n] : {std::tuple{"x1Scale", &*f.a_scale, rows}, {"x2Scale", &*f.b_scale, columns}}) {
    TORCH_CHECK(t->scalar_type() == at::kFloat, name, " is of ", t->scalar_type(), ", float32 is expected");
    mx::need_sizes(name, *t, {n});
  }
}

void batch_product(const BatchFactors& f, Tensor& out) {
  if (out.numel() == 0) return;
  const bool turned = f.perm_b == at::IntArrayRef({0, 2, 1}), blocks = powers(*f.b_scale);
  const Tensor a = blocks ? mx_rows({f.a, *f.a_scale, false}) : mx::floats(f.a);  // [rows, batch, inner]
  const Tensor b = blocks ? mx_rows({f.b, *f.b_scale, !turned}) : mx::floats(turned ? f.b : f.b.transpose(1, 2));
  Tensor value = at::matmul(a.transpose(0, 1), b.transpose(1, 2));
  if (!blocks) value = value * *f.b_scale * f.a_scale->unsqueeze(-1);
  put(out, value.transpose(0, 1));
}

// -- sums

namespace {

// hifloat8 goes with itself, and with numbers of float32: one for a matrix, or for each column of the right one.
bool of_codes(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(is_hifloat8(a) == is_hifloat8(b), "x1 is of ", a.scalar_type(), ", x2 of ", b.scalar_type(),
              "; hifloat8 goes with itself alone");
  return is_hifloat8(a);
}

void need_scale_of_codes(const char* name, const Tensor& scale, int64_t groups, int64_t columns) {
  TORCH_CHECK(scale.scalar_type() == at::kFloat, name, " is of ", scale.scalar_type(), "; float32 goes with hifloat8");
  const int64_t dims = scale.dim(), each = dims == 2 ? scale.size(1) : 1;
  TORCH_CHECK((dims == 1 || dims == 2) && scale.size(0) == groups && (each == 1 || each == columns), name,
              " has the sizes ", scale.sizes(), " for ", groups, " products of ", columns, " columns");
}

}  // namespace

void need_mx_sum(const MxFactor& left, const MxFactor& right, int64_t group, const Tensor& y) {
  if (of_codes(left.t, right.t)) {
    TORCH_CHECK(left.t.dim() == 2 && right.t.dim() == 2, "factors of ", left.t.sizes(), " and ", right.t.sizes());
    need_scale_of_codes("x1Scale", left.scale, 1, 1);
    need_scale_of_codes("x2Scale", right.scale, 1, 1);
    TORCH_CHECK(group == 0, "groupSize is ", group, ", not 0, which goes with hifloat8");
  } else {
    need_mx_factor("x1", left);
    need_mx_factor("x2", right);
    need_mx_group(group);
  }
  const Sizes a = mx_sizes(left), b = mx_sizes(right);
  TORCH_CHECK(a.size() == 2 && b.size() == 2 && a[1] == b[1], "factors of ", at::IntArrayRef(a), " and ",
              at::IntArrayRef(b));
  need_result({a[0], b[0]}, y);
}

void mx_sum(const MxFactor& left, const MxFactor& right, Tensor& y) {
  if (y.numel() == 0) return;
  if (!is_hifloat8(left.t)) {
    y.add_(mx_product(left, right));
    return;
  }
  const auto rows = [](const MxFactor& f) { return f.turned ? mx::floats(f.t).t() : mx::floats(f.t); };
  y.add_(at::matmul(rows(left), rows(right).t()) * (left.scale * right.scale));
}

void need_mx_group_sums(const Tensor& a, const Tensor& b, const Maybe& a_scale, const Tensor& b_scale,
                        const Tensor& list, int64_t list_type, int64_t group, const Tensor& y) {
  const bool codes = of_codes(a, b);
  TORCH_CHECK(passed(a_scale), "scale1 is needed");
  TORCH_CHECK(codes || (powers(*a_scale) && powers(b_scale)), "scales of ", a_scale->scalar_type(), " and ",
              b_scale.scalar_type(), " go with hifloat8, and x1 is of ", a.scalar_type());
  TORCH_CHECK(small_floats(a.scalar_type(), b.scalar_type()), "factors of ", a.scalar_type(), " and ", b.scalar_type(),
              " are not 8-bit floats");
  TORCH_CHECK(list.dim() == 1 && (list_type == 0 || list_type == 1), "groupList has ", list.dim(),
              " dimensions and the type ", list_type, "; one, and 0 or 1, are expected");
  TORCH_CHECK(group == 0, "groupSize is ", group, ", not 0");
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(0) == b.size(0), "factors of ", a.sizes(), " and ", b.sizes());
  if (codes) {
    need_scale_of_codes("scale1", *a_scale, list.size(0), 1);
    need_scale_of_codes("scale2", b_scale, list.size(0), b.size(1));
  } else {
    const int64_t pairs = a.size(0) / 64 + list.size(0);
    mx::need_sizes("scale1", *a_scale, {pairs, a.size(1), 2});
    mx::need_sizes("scale2", b_scale, {pairs, b.size(1), 2});
  }
  need_result({list.size(0), a.size(1), b.size(1)}, y);
}

void mx_group_sums(const Tensor& a, const Tensor& b, const Maybe& a_scale, const Tensor& b_scale, const Tensor& list,
                   int64_t list_type, Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor ends = ends_of(list, list_type);
  int64_t from = 0;
  for (int64_t g = 0; g < ends.size(0); g++) {
    const int64_t to = ends[g].item<int64_t>(), n = to - from;
    TORCH_CHECK(n >= 0 && to <= a.size(0), "the ends of groups ", from, " and ", to, " of ", a.size(0), " rows");
    if (n > 0 && is_hifloat8(a)) {
      const Tensor value = at::matmul(mx::floats(a.narrow(0, from, n)).t(), mx::floats(b.narrow(0, from, n)));
      y[g].add_(value * b_scale[g] * (*a_scale)[g]);
    } else if (n > 0) {
      const auto part = [&](const Tensor& t, const Tensor& s) {
        return mx::values_of(t.narrow(0, from, n), s.narrow(0, from / 64 + g, (n + 63) / 64), 0);
      };
      y[g].add_(at::matmul(part(a, *a_scale).t(), part(b, b_scale)));
    }
    from = to;
  }
}

}  // namespace softnpu::ops::kernels
