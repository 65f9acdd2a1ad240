// Gates, groups and blocks with quantization: see fused_quant.h.
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <array>

#include "softnpu/ops/fused_quant.h"
#include "softnpu/ops/group_ends.h"
#include "softnpu/ops/in_halves.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {
namespace {

Tensor ends_of(const GroupRows& groups, int64_t rows) {
  const Tensor list = groups.list->flatten().to(at::kLong);
  const Tensor ends = groups.kind == 0 ? list.contiguous() : at::cumsum(list, 0);
  need_running(ends, rows);
  return ends;
}
// The group of each row; rows past the last group belong to it.
Tensor group_of_rows(const GroupRows& groups, int64_t rows, int64_t count) {
  const Tensor row = at::arange(rows, at::kLong);
  return at::searchsorted(ends_of(groups, rows), row, false, /*right=*/true).clamp_max(std::max<int64_t>(count - 1, 0));
}
// A number, a row, or a row a group, for each row of a matrix.
Tensor of_rows(const Tensor& t, const GroupRows& groups, int64_t rows, int64_t columns) {
  const Tensor f = wide(t);
  if (f.numel() == 1) return f.reshape({1, 1});
  if (!given(groups.list)) return f.reshape({-1, f.dim() == 1 && f.numel() != columns ? 1 : columns});
  const int64_t count = groups.list->numel();
  if (f.numel() == columns && count == 1) return f.reshape({1, columns});
  const Tensor by_group = f.reshape({count, f.numel() / count});
  return by_group.index_select(0, group_of_rows(groups, rows, count));
}

// 4-bit floats are rounded as is named, all others in the way of their type.
void put_as(Tensor& y, const Tensor& value, std::string_view round) {
  if (!mx::packed(y)) return put_rounded(y, value);
  mx::put_elements(y, value, mx::element(y.scalar_type()), round);
}

}  // namespace

void group_quant(const Tensor& x, const Tensor& scale, const Tensor& groups, const Maybe& offset, Tensor& y) {
  const Maybe list(groups);
  const GroupRows rows{list, 0};
  Tensor value = wide(x) * of_rows(scale, rows, x.size(0), x.size(1));
  if (given(offset)) value = value + wide(*offset).reshape({});
  put_rounded(y, value);
}

void swiglu_quant(const Tensor& x, const Maybe& smooth, const Maybe& offset, const GroupRows& groups, bool left,
                  std::string_view mode, Tensor& y, Tensor& scale) {
  const auto halves = in_halves(wide(x).flatten(0, -2), -1);
  Tensor value = left ? at::silu(halves[0]) * halves[1] : halves[0] * at::silu(halves[1]);
  const int64_t rows = value.size(0), columns = value.size(1);
  if (given(smooth)) value = value * of_rows(*smooth, groups, rows, columns);
  Tensor flat = y.view({rows, columns});
  if (mode == "dynamic") {
    put_if_fits(scale, put_dynamic_rows(flat, value).reciprocal_());
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(mode.empty() || mode == "static", "aclnnSwiGluQuantV2: the mode ", std::string(mode),
                              " is not implemented; static and dynamic are");
  put_rounded(flat, given(offset) ? value + of_rows(*offset, groups, rows, columns) : value);
  if (scale.defined()) scale.zero_();
}

void dequant_swiglu_quant(const Tensor& x, const Dequantized& d, const GatedQuant& q, Tensor& y, Tensor& scale) {
  Tensor value = wide(x).flatten(0, -2);
  const int64_t rows = value.size(0), all = value.size(1);
  const GroupRows groups{q.groups, 1};
  const bool integer_bias = given(d.bias) && d.bias->scalar_type() == at::kInt;
  if (integer_bias) value = value + of_rows(*d.bias, groups, rows, all);
  if (given(d.weight_scale)) value = value * of_rows(*d.weight_scale, groups, rows, all);
  if (given(d.row_scale)) value = value * wide(*d.row_scale).reshape({rows, 1});
  if (given(d.bias) && !integer_bias) value = value + of_rows(*d.bias, groups, rows, all);
  const auto halves = in_halves(value, -1);
  Tensor glu = q.left ? halves[0] : halves[1], linear = q.left ? halves[1] : halves[0];
  if (q.gate == 1) {
    glu = value.unflatten(-1, {-1, 2}).select(-1, 0).clamp_max(q.limit);
    linear = value.unflatten(-1, {-1, 2}).select(-1, 1).clamp(-q.limit, q.limit);
    value = glu * at::sigmoid(glu * q.alpha) * (linear + q.bias);
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(q.gate == 0, "aclnnDequantSwigluQuantV2: swigluMode ", q.gate, " is not implemented");
    value = at::silu(glu) * linear;
  }
  const int64_t columns = value.size(1);
  Tensor flat = y.view({rows, y.size(-1)});
  if (q.mode == "dynamic") {
    if (given(q.scale)) value = value * of_rows(*q.scale, groups, rows, columns);
    const double most = mx::packed(y) ? mx::element(y.scalar_type()).largest : largest_of(y, value);
    const Tensor found = value.abs().amax(-1, true).div_(most);
    put_as(flat, value / found.masked_fill(found.eq(0), 1), q.round);
    if (scale.defined()) put_if_fits(scale, found);
    return;
  }
  if (given(q.scale)) value = value / of_rows(*q.scale, groups, rows, columns);
  if (given(q.offset)) value = value + of_rows(*q.offset, groups, rows, columns);
  put_as(flat, value, q.round);
  if (scale.defined()) scale.zero_();
}

void dequant_bias(const Tensor& x, const Tensor& weight_scale, const Maybe& row_scale, const Maybe& bias, Tensor& out) {
  const bool first = given(bias) && bias->scalar_type() == at::kInt;
  Tensor value = x.to(at::kDouble);
  if (first) value = value + bias->to(at::kDouble);
  value = value * wide(weight_scale).to(at::kDouble);
  if (given(row_scale)) value = value * row_scale->to(at::kDouble).reshape({-1, 1});
  if (given(bias) && !first) value = value + bias->to(at::kDouble);
  put(out, value);
}

void need_quantized(std::string_view round, int64_t type, const Tensor& y, double largest) {
  if (mx::packed(y)) {
    constexpr std::array<std::string_view, 6> kRoundings = {"", "rint", "round", "floor", "ceil", "trunc"};
    TORCH_CHECK(std::find(kRoundings.begin(), kRoundings.end(), round) != kRoundings.end(), "roundMode ", round,
                " is not rint, round, floor, ceil or trunc");
    const int64_t own = y.scalar_type() == at::ScalarType::Float4_e2m1fn_x2 ? 40 : 41;
    TORCH_CHECK(type == own, "the type ", type, " is not that of the result, ", own);
    return need_last_pairs("yOut", y);
  }
  TORCH_CHECK(is_hifloat8(y) || largest == 0, "dstTypeMax ", largest, " goes with hifloat8, the result is of ",
              y.scalar_type(), "; it is 0");
  TORCH_CHECK(is_hifloat8(y) || type != kAclHifloat8, "the type ", type, " (hifloat8) is not that of the result, ",
              y.scalar_type());
  if (is_hifloat8(y)) need_hifloat8(round, type, largest);
}

void block_quant(const Tensor& x, double least, int64_t rows, int64_t columns, double most, Tensor& y, Tensor& scale) {
  TORCH_CHECK(rows > 0 && columns > 0, "aclnnDynamicBlockQuant: blocks of ", rows, " x ", columns);
  const Tensor value = wide(x);
  const double high = most > 0 ? most : largest_of(y, value);
  const int64_t m = x.size(-2), n = x.size(-1), mb = (m + rows - 1) / rows, nb = (n + columns - 1) / columns;
  const Tensor padded = at::constant_pad_nd(value, {0, nb * columns - n, 0, mb * rows - m});
  const Tensor blocks = padded.unflatten(-1, {nb, columns}).unflatten(-3, {mb, rows});
  Tensor s = blocks.abs().amax({-1, -3}) / high;
  if (least > 0) s = s.clamp_max(1 / least);
  const Tensor each = s.repeat_interleave(rows, -2).repeat_interleave(columns, -1).narrow(-2, 0, m).narrow(-1, 0, n);
  put_rounded(y, value / each.masked_fill(each.eq(0), 1));
  put(scale, s);
}

void quant_max(const Tensor& x, const Tensor& scale, const Maybe& groups, Tensor& y, Tensor& largest) {
  const Tensor value = wide(x);
  if (!given(groups)) {
    put_rounded(y, value * wide(scale).reshape({}));
    put(largest, value.abs().amax().reshape({1}));
    return;
  }
  const Tensor flat = value.reshape({x.size(0), -1});
  const int64_t count = groups->numel();
  const Tensor of_row = group_of_rows({groups, 0}, x.size(0), count);
  put_rounded(y, (flat * wide(scale).index_select(0, of_row).unsqueeze(1)).reshape(x.sizes()));
  std::vector<Tensor> most;
  for (int64_t g = 0; g < count; g++) {
    const Tensor rows = of_row.eq(g).nonzero().squeeze(1);
    most.push_back(rows.numel() ? flat.index_select(0, rows).abs().amax() : at::empty({}, flat.options()).zero_());
  }
  put(largest, at::stack(most));
}

}  // namespace softnpu::ops::kernels
