// See grouped_gate.h.
#include "softnpu/ops/grouped_gate.h"

#include <ATen/ops/silu.h>

#include "softnpu/ops/grouped_parts.h"
#include "softnpu/ops/in_halves.h"
#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/rounded.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

// Half the columns of the products.
int64_t half_columns(const Grouped& g) { return grouped_columns(g) / 2; }

void need_modes(Way way, const Grouped& g, const GateForm& f) {
  const bool powers = way == Way::kPowers, blocks = !powers && g.scale[0].dim() == (g.weight.size() == 1 ? 3 : 2);
  const int64_t operands = powers ? 2 : blocks ? 1 : 0;
  TORCH_CHECK(f.operands == operands, "dequantMode is ", f.operands, ", and the operands have that of ", operands);
  TORCH_CHECK(f.results == (powers ? 2 : 0), "quantMode is ", f.results, " with dequantMode ", operands);
  need_number("dequantDtype", f.between, {0, 1, 27, 28});
  TORCH_CHECK(!powers || f.between == 0 || f.between == 28, "dequantDtype is ", f.between, " with MX operands");
}

void need_results(Way way, const Grouped& g, const Tensor& out, const Tensor& out_scale) {
  const int64_t rows = g.x[0].size(0), columns = half_columns(g);
  mx::need_sizes("output", out, {rows, columns});
  if (way == Way::kPowers) {
    TORCH_CHECK_NOT_IMPLEMENTED(out.scalar_type() != at::ScalarType::Bits4x2, "output of float4_e1m2 is not ",
                                "implemented: the documents differ on the exponent that its scales are made of");
    TORCH_CHECK(mx::is_small(out.scalar_type()) && out_scale.scalar_type() == at::kFloat8_e8m0fnu, "output of ",
                out.scalar_type(), " with scales of ", out_scale.scalar_type(), " are no MX results");
    const std::vector<int64_t> wanted{rows, (columns + 63) / 64, 2};
    return mx::need_sizes("outputScale", out_scale, wanted);
  }
  const bool small = way == Way::kNumbers;
  TORCH_CHECK(small ? small_float(out) : out.scalar_type() == at::kChar, "output is of ", out.scalar_type(),
              " with x of ", g.x[0].scalar_type());
  TORCH_CHECK(out_scale.scalar_type() != at::kFloat8_e8m0fnu, "outputScale of float8_e8m0fnu goes with MX operands");
  TORCH_CHECK(out_scale.numel() == rows, "outputScale has ", out_scale.numel(), " numbers for ", rows, " rows");
}

}  // namespace

void need_grouped_gate(const Grouped& g, const Groups& groups, const GateForm& f, const Tensor& out,
                       const Tensor& out_scale) {
  need_absent("bias", f.bias);
  need_absent("offset", f.offset);
  const Way way = way_of(g);
  TORCH_CHECK(way == Way::kWhole || way == Way::kShifted || way == Way::kNumbers || way == Way::kPowers, "x of ",
              g.x[0].scalar_type(), " is not quantized");
  TORCH_CHECK(has(g.scale), "weightScale is needed");
  TORCH_CHECK(way == Way::kShifted || !has(g.bias), "weightAssistMatrix goes with x of int8 and a weight of int4");
  need_grouped_rows(g, groups, -1);
  need_modes(way, g, f);
  TORCH_CHECK(grouped_columns(g) % 2 == 0, "the weight has ", grouped_columns(g), " columns, which are no two halves");
  need_results(way, g, out, out_scale);
  if (!given(f.smooth)) return;
  const int64_t n = f.smooth->numel(), count = groups.list->numel(), columns = half_columns(g);
  TORCH_CHECK(n == count || n == columns || n == count * columns, "smoothScale has the sizes ", f.smooth->sizes(),
              " for ", count, " groups of ", columns, " columns");
}

void grouped_gate(const Grouped& g, const Groups& groups, const GateForm& f, Tensor& out, Tensor& out_scale) {
  if (out.numel() == 0) return;
  const Way way = way_of(g);
  Tensor products = grouped_rows(g, groups);
  if (way == Way::kNumbers && f.between == 1) products = products.to(at::kHalf).to(at::kFloat);
  if (way == Way::kNumbers && f.between == 27) products = products.to(at::kBFloat16).to(at::kFloat);
  const auto halves = in_halves(products, -1);
  Tensor value = at::silu(halves[0]) * halves[1];
  const std::vector<int64_t> ends = group_ends(groups);
  if (given(f.smooth)) {
    const int64_t count = static_cast<int64_t>(ends.size()), columns = value.size(1);
    const Tensor all = wide(*f.smooth).flatten();
    const bool one_each = all.numel() == count, shared = !one_each && all.numel() == columns;
    for (int64_t i = 0; i < count; i++) {
      const int64_t from = i ? ends[static_cast<size_t>(i) - 1] : 0, n = ends[static_cast<size_t>(i)] - from;
      const Tensor factor = shared ? all : all.view({count, -1})[i];
      value.narrow(0, from, n).mul_(factor);
    }
  }
  if (way == Way::kPowers) return mx::put_blocks(out, out_scale, value, 1, mx::element(out.scalar_type()), MxForm{});
  out.view(at::kByte).zero_();
  out_scale.zero_();
  const int64_t used = ends.empty() ? 0 : ends.back();
  if (used == 0) return;
  Tensor place = out.narrow(0, 0, used), place_scale = out_scale.narrow(0, 0, used);
  put(place_scale, put_dynamic_rows(place, value.narrow(0, 0, used)).view(place_scale.sizes()));
}

}  // namespace softnpu::ops::kernels
