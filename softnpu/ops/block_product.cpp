// See block_product.h.
#include "softnpu/ops/block_product.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/mx_blocks.h"

namespace softnpu::ops::kernels {
namespace {

using Sizes = std::vector<int64_t>;

int64_t blocks_of(int64_t size, int64_t block) { return (size + block - 1) / block; }

Tensor straight(const Tensor& t, bool turned) { return turned ? t.transpose(-1, -2) : t; }

// Sums of blocks of the inner dimension are exact.
Tensor exact_values(const Tensor& t, bool turned) { return straight(low_values(t).to(at::kDouble), turned); }

bool half(const Tensor& t) { return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16; }

void need_float(const char* name, const Maybe& t, const char* with) {
  TORCH_CHECK(passed(t) && t->scalar_type() == at::kFloat, name, " of float32 is needed with ", with);
}

// The inner size of two matrices and a result of 16 bits, as phase one knows it.
int64_t need_matrices(const QuantFactors& f, const Tensor& out) {
  const Sizes left = low_sizes(f.a), right = low_sizes(f.b);
  TORCH_CHECK(left.size() == 2 && right.size() == 2 && !f.turned_a, "x1 of ", at::IntArrayRef(left), " and x2 of ",
              at::IntArrayRef(right), " are two matrices, x1 not transposed");
  TORCH_CHECK(left[1] == right[f.turned_b ? 1 : 0], "the inner sizes are ", left[1], " and ",
              right[f.turned_b ? 1 : 0]);
  need_result({left[0], right[f.turned_b ? 0 : 1]}, out);
  TORCH_CHECK(half(out), "the result is of ", out.scalar_type(), ", float16 or bfloat16 is expected");
  return left[1];
}

// [.., blocks of the last dimension but one, blocks of the last] of sizes.
Sizes scale_sizes(Sizes sizes, int64_t block, int64_t last_block) {
  sizes[sizes.size() - 2] = blocks_of(sizes[sizes.size() - 2], block);
  sizes.back() = blocks_of(sizes.back(), last_block);
  return sizes;
}

// Values times the numbers of their blocks, `rows` of the last dimension but one.
Tensor scaled(const Tensor& t, const Tensor& scale, int64_t rows) {
  const Tensor columns = mx::spread(scale, scale.dim() - 1, kBlock, t.size(-1));
  return t * mx::spread(columns, columns.dim() - 2, rows, t.size(-2)).to(t.scalar_type());
}

}  // namespace

void need_block_product(const QuantFactors& f, const Tensor& out) {
  const bool whole = f.a.scalar_type() == at::kChar, square = f.group == kSquareBlocks;
  const char* const with = square ? "groupSize [128, 128, 128]" : "groupSize [1, 128, 128]";
  TORCH_CHECK(!whole || !square, "x1 of int8 goes with groupSize [1, 128, 128], not [128, 128, 128]");
  TORCH_CHECK(f.a.dim() >= 2 && f.b.dim() >= 2, "factors of ", f.a.sizes(), " and ", f.b.sizes());
  const Tensor left = straight(f.a, f.turned_a), right = straight(f.b, f.turned_b);
  TORCH_CHECK(left.size(-1) == right.size(-2), "the inner sizes are ", left.size(-1), " and ", right.size(-2));
  need_result(product_sizes(left.sizes().vec(), right.transpose(-1, -2).sizes().vec()), out);
  TORCH_CHECK(whole ? half(out) : at::isFloatingType(out.scalar_type()), "the result is of ", out.scalar_type(),
              whole ? ", float16 or bfloat16 is expected" : ", a floating one is expected");
  need_float("x1Scale", f.a_scale, with);
  need_float("x2Scale", f.b_scale, with);
  const int64_t rows = square ? kBlock : 1;
  mx::need_sizes(
      "x1Scale", *f.a_scale,
      f.turned_a ? scale_sizes(f.a.sizes().vec(), kBlock, rows) : scale_sizes(f.a.sizes().vec(), rows, kBlock));
  mx::need_sizes("x2Scale", f.b_scale, scale_sizes(f.b.sizes().vec(), kBlock, kBlock));
  TORCH_CHECK(!given(f.offset), "x2Offset does not go with ", with);
  TORCH_CHECK(!given(f.bias) || whole, "bias goes with ", with, " of int8 alone");
  need_bias(f.bias, right.size(-1));
  TORCH_CHECK(!given(f.bias) || f.bias->scalar_type() == at::kFloat, "bias is of ", f.bias->scalar_type(),
              ", float32 is expected with ", with);
}

Tensor block_product(const QuantFactors& f) {
  const at::ScalarType type = f.a.scalar_type() == at::kChar ? at::kDouble : at::kFloat;
  const auto values = [&](const Tensor& t, const Tensor& scale, bool turned, int64_t rows) {
    return scaled(straight(low_values(t), turned).to(type), straight(scale, turned), rows);
  };
  const int64_t rows = f.group == kSquareBlocks ? kBlock : 1;
  const Tensor sum = at::matmul(values(f.a, *f.a_scale, f.turned_a, rows), values(f.b, f.b_scale, f.turned_b, kBlock));
  return given(f.bias) ? sum + f.bias->to(type) : sum;
}

void need_shifted_product(const QuantFactors& f, const Tensor& out) {
  const int64_t groups = blocks_of(need_matrices(f, out), kInnerGroup);
  TORCH_CHECK(f.group == 0 || f.group == kInnerGroup, "groupSize is ", f.group, ", [0, 0, 256] is expected");
  need_float("x1Scale", f.a_scale, "x2Scale of groups");
  need_float("x2Scale", f.b_scale, "x2Scale of groups");
  mx::need_sizes("x1Scale", *f.a_scale, {out.size(0), 1});
  mx::need_sizes("x2Scale", f.b_scale, {groups, out.size(1)});
  mx::need_sizes("x2Offset", *f.offset, {groups, out.size(1)});
  TORCH_CHECK(f.offset->scalar_type() == at::kHalf, "x2Offset is of ", f.offset->scalar_type(),
              ", float16 is expected with x2Scale of groups");
  TORCH_CHECK(!given(f.bias), "bias does not go with x2Scale of groups");
}

Tensor shifted_product(const QuantFactors& f) {
  const Tensor a = exact_values(f.a, false), b = exact_values(f.b, f.turned_b);
  Tensor sum = at::zeros({a.size(0), b.size(1)}, a.options());
  for (int64_t group = 0, from = 0; from < a.size(1); group++, from += kInnerGroup) {
    const int64_t n = std::min(kInnerGroup, a.size(1) - from);
    const Tensor left = a.narrow(1, from, n), shift = (*f.offset)[group].to(at::kDouble);
    const Tensor part = at::matmul(left, b.narrow(0, from, n)) - left.sum(1, true) * shift;
    sum.add_(part * f.b_scale[group].to(at::kDouble));
  }
  return sum * f.a_scale->to(at::kDouble);
}

void need_mixed_product(const QuantFactors& f, const Tensor& out) {
  const char* const with = "x1 of int8 and x2 of int4";
  const int64_t inner = need_matrices(f, out), columns = out.size(1);
  const bool groups = f.b_scale.dim() == 2;
  TORCH_CHECK(f.group == 0 || (groups && f.group == kInnerGroup), "groupSize is ", f.group, groups ? ", 0 or " : ", 0",
              groups ? "[0, 0, 256] is expected" : " is expected with x2Scale of columns");
  need_float("x1Scale", f.a_scale, with);
  need_numbers("x1Scale", *f.a_scale, {out.size(0)});
  TORCH_CHECK(wide_bits(f.b_scale), "x2Scale is of ", f.b_scale.scalar_type(), ", int64 or uint64 is expected with ",
              with);
  mx::need_sizes("x2Scale", f.b_scale, groups ? Sizes{blocks_of(inner, kInnerGroup), columns} : Sizes{columns});
  // Not in ops/types.yaml: what is absent may be a tensor of any type without elements.
  need_float("yOffset", f.y_offset, with);
  mx::need_sizes("yOffset", *f.y_offset, {columns});
  TORCH_CHECK(!given(f.offset) && !given(f.bias), "x2Offset and bias do not go with ", with);
}

Tensor mixed_product(const QuantFactors& f) {
  const Tensor numbers = scale_values(f.b_scale).to(at::kDouble), values = exact_values(f.b, f.turned_b);
  const Tensor scale = numbers.dim() == 2 ? mx::spread(numbers, 0, kInnerGroup, values.size(0)) : numbers;
  const Tensor sum = at::matmul(exact_values(f.a, false) - 8, values * scale) + f.y_offset->to(at::kDouble);
  return sum * f.a_scale->to(at::kDouble).reshape({-1, 1});
}

}  // namespace softnpu::ops::kernels
