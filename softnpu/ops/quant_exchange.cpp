// See quant_exchange.h.
#include "softnpu/ops/quant_exchange.h"

#include <ATen/ops/matmul.h>

#include <algorithm>
#include <array>

#include "softnpu/ops/hifloat8.h"
#include "softnpu/ops/mx_blocks.h"

namespace softnpu::ops::kernels {
namespace {

using Sizes = std::vector<int64_t>;

bool float8(const Tensor& t) { return t.scalar_type() == at::kFloat8_e4m3fn || t.scalar_type() == at::kFloat8_e5m2; }

void need_contiguous(const char* name, const Tensor& t) {
  TORCH_CHECK(t.is_contiguous(), name, " of sizes ", t.sizes(), " is not contiguous; a group exchanges its memory");
}

void need_numbers(const char* name, const Maybe& t, int64_t count) {
  TORCH_CHECK(given(t) && t->scalar_type() == at::kFloat && t->dim() == 1 && t->size(0) == count, name,
              " is one dimension of ", count, " float32 numbers");
}

// The inner size, in elements, of [.., inner].
int64_t inner_of(const Tensor& t) { return t.size(-1) * (mx::packed(t) ? 2 : 1); }

void need_group(const QuantSettings& s, bool powers) {
  if (powers) return need_mx_group(s.group);
  TORCH_CHECK(s.group == 0, "groupSize is ", s.group, "; it goes with MX operands");
}

// Rows to the values of their elements and what each is to be multiplied with: symmetric, found.
std::pair<Tensor, Tensor> found_rows(const Tensor& value, int64_t type) {
  const bool whole = type == 2;
  const at::ScalarType to = type == 35 ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
  const double most = whole ? 127 : mx::element(to).largest;
  const Tensor step = value.abs().amax(-1, true) / most;
  const Tensor scaled = value / step.masked_fill(step.eq(0), 1);
  return {whole ? scaled.round().clamp(-128, 127) : scaled.clamp(-most, most).to(to).to(at::kFloat), step};
}

void need_pair(const QuantPair& f, const char* left) {
  const bool powers = f.a_way == kPowers;
  TORCH_CHECK(powers == (f.b_way == kPowers), "x1QuantMode ", f.a_way, " does not go with x2QuantMode ", f.b_way);
  TORCH_CHECK(powers || f.b_way == kColumn, "x2QuantMode ", f.b_way, " is not implemented; 2 and 6 are");
  TORCH_CHECK(f.a.dim() == 2 && f.b.dim() == 2, "factors of ", f.a.sizes(), " and ", f.b.sizes(),
              " have not two dimensions");
  need_contiguous(left, f.a);
  TORCH_CHECK(!powers || f.turned_b, "transposeX2 is set with MX operands");
  TORCH_CHECK(!passed(f.bias) || f.bias->sizes() == at::IntArrayRef{f.columns()}, "the bias has sizes ",
              passed(f.bias) ? f.bias->sizes() : at::IntArrayRef(), " for ", f.columns(), " columns");
}

}  // namespace

void need_quant_settings(const QuantSettings& s) {
  constexpr std::array<std::string_view, 4> kModes = {"", "ai_cpu", "ccu", "aiv"};
  TORCH_CHECK(std::find(kModes.begin(), kModes.end(), s.mode) != kModes.end(), "commMode is '", std::string(s.mode),
              "', not 'ai_cpu', 'ccu' or 'aiv'");
  TORCH_CHECK(s.coding == 0 && !given(s.coding_scale), "commQuantMode is ", s.coding,
              ", or a scale of it is given; 0 without is all that is implemented");
  TORCH_CHECK(s.coded_type == -1, "commQuantDtype is ", s.coded_type, "; -1 is the only value");
  TORCH_CHECK(!given(s.a_offset) && !given(s.b_offset), "x1Offset and x2Offset are not implemented");
  TORCH_CHECK(!s.turned_a, "transposeX1 is set; the left factor cannot be transposed");
}

void need_pair_group(const QuantSettings& s, const QuantPair& f) { need_group(s, f.a_way == kPowers); }
void need_expert_group(const QuantSettings& s, const QuantExperts& q) { need_group(s, q.x_way == kPowers); }

Tensor bytes_of(const Tensor& t) { return t.element_size() == 1 ? t.view(at::kByte) : t; }

QuantPair QuantPair::of(const Tensor& rows, const Tensor& scales) const {
  QuantPair other = *this;
  other.a = rows.scalar_type() == a.scalar_type() ? rows : rows.view(a.scalar_type());
  if (a_way == kPowers) other.a_scale = scales.view(at::kFloat8_e8m0fnu);
  return other;
}

// -- rows side by side

void need_joined_pair(const QuantPair& f, at::IntArrayRef axes, int64_t ranks, const Tensor& out,
                      const Tensor& joined) {
  const int64_t only[] = {-2, -1};
  TORCH_CHECK(axes.empty() || axes == at::IntArrayRef(only), "alltoAllAxes is ", axes, "; ", at::IntArrayRef(only),
              " is the only value");
  need_pair(f, "x1");
  const int64_t rows = f.a.size(0), inner = inner_of(f.a) * ranks;
  TORCH_CHECK(rows % ranks == 0, "x1's rows of ", rows, " cannot be divided among ", ranks, " ranks");
  const Tensor right = f.turned_b ? f.b : f.b.transpose(0, 1);
  TORCH_CHECK((mx::packed(f.b) ? inner_of(f.b) : right.size(1)) == inner, "x2 of sizes ", f.b.sizes(), " for the ",
              inner, " columns of all ranks");
  TORCH_CHECK(out.sizes() == at::IntArrayRef({rows / ranks, f.columns()}), "output has sizes ", out.sizes(), ", not [",
              rows / ranks, ", ", f.columns(), "]");
  if (asked(joined)) {
    TORCH_CHECK(joined.scalar_type() == f.a.scalar_type() &&
                    joined.sizes() == at::IntArrayRef(joined_sizes(f.a, ranks)) && joined.is_contiguous(),
                "alltoAllOut of ", joined.scalar_type(), " and ", joined.sizes(), " is not as x1, ",
                at::IntArrayRef(joined_sizes(f.a, ranks)));
  }
  if (f.a_way == kPowers) {
    TORCH_CHECK(inner_of(f.a) % 64 == 0, "the columns of x1, ", inner_of(f.a), ", are no multiple of 64");
    TORCH_CHECK(given(f.a_scale), "x1Scale is needed with MX operands");
    need_contiguous("x1Scale", *f.a_scale);
    need_mx_factor("x1", {f.a, *f.a_scale, false});
    return need_mx_factor("x2", {f.b, f.b_scale, false});
  }
  TORCH_CHECK_NOT_IMPLEMENTED(f.a_way == kFound, "x1QuantMode ", f.a_way, " is not implemented; 6 and 7 are");
  TORCH_CHECK(f.a.scalar_type() == at::kHalf || f.a.scalar_type() == at::kBFloat16, "x1 of ", f.a.scalar_type(),
              " is quantized already; float16 and bfloat16 go with x1QuantMode 7");
  need_numbers("x2Scale", f.b_scale, f.columns());
  if (f.b.scalar_type() == at::kChar) {
    TORCH_CHECK(f.a_type == 2, "x1QuantDtype is ", f.a_type, ", 2 (int8) goes with x2 of int8");
    if (!given(f.a_scale)) return;
    TORCH_CHECK(f.a_scale->numel() == inner && f.a_scale->scalar_type() == f.a.scalar_type(), "x1Scale of ",
                f.a_scale->scalar_type(), " and ", f.a_scale->sizes(), " is not one a column of all ranks, as x1");
    return;
  }
  TORCH_CHECK(float8(f.b), "x2 of ", f.b.scalar_type(), " does not go with x1QuantMode 7");
  TORCH_CHECK(f.a_type == 35 || f.a_type == 36, "x1QuantDtype is ", f.a_type, ", not 35 or 36 (8-bit floats)");
  TORCH_CHECK(!given(f.a_scale), "x1Scale does not go with x1QuantMode 7 and 8-bit floats");
}

std::vector<int64_t> exchanged_scales(const QuantPair& f) {
  return f.a_way == kPowers ? f.a_scale->sizes().vec() : Sizes{0};
}

std::vector<int64_t> joined_scales(const QuantPair& f, int64_t ranks) {
  if (f.a_way != kPowers) return {0};
  return {f.a_scale->size(0) / ranks, f.a_scale->size(1) * ranks, 2};
}

void exchange_scales(const Peers& peers, const QuantPair& f, const Tensor& room) {
  if (f.a_way == kPowers) peers.all_to_all(bytes_of(*f.a_scale), room);
}

void join_scales(const QuantPair& f, const Tensor& parts, Tensor out) {
  if (f.a_way == kPowers) join_columns(parts.flatten(1), out.flatten(1));
}

void quant_pair_product(const QuantPair& f, Tensor out) {
  if (!out.numel()) return;
  const auto bias = [&] { return f.bias->to(at::kFloat); };
  const bool added = given(f.bias);
  if (f.a_way == kPowers) {
    Tensor value = mx_product({f.a, *f.a_scale, false}, {f.b, f.b_scale, !f.turned_b});
    return put(out, added ? value + bias() : value);
  }
  Tensor left, step;
  if (f.a_way == kFound) {
    const bool smooth = given(f.a_scale);
    std::tie(left, step) = found_rows(smooth ? mx::floats(f.a) * mx::floats(*f.a_scale) : mx::floats(f.a), f.a_type);
  } else {
    left = f.a;
    step = f.a_scale->to(at::kFloat).unsqueeze(-1);
  }
  const bool whole = f.b.scalar_type() == at::kChar;  // a bias is added after the scales
  Tensor value = at::matmul(left.to(at::kDouble), (f.turned_b ? f.b.t() : f.b).to(at::kDouble));
  if (added && !whole) value = value + bias();
  value = value * step * f.b_scale;
  if (added && whole) value = value + bias();
  put(out, value);
}

// -- columns to the ranks

void need_split_pair(const QuantPair& f, at::IntArrayRef axes, int64_t ranks, const Tensor& out) {
  const int64_t only[] = {-1, -2};
  TORCH_CHECK(axes.empty() || axes == at::IntArrayRef(only), "alltoAllAxes is ", axes, "; ", at::IntArrayRef(only),
              " is the only value");
  need_pair(f, "x1");
  const int64_t rows = f.a.size(0), columns = f.columns();
  TORCH_CHECK(columns % ranks == 0, "x2's columns of ", columns, " cannot be divided among ", ranks, " ranks");
  TORCH_CHECK(out.is_contiguous() && out.sizes() == at::IntArrayRef({rows * ranks, columns / ranks}),
              "output has sizes ", out.sizes(), ", not [", rows * ranks, ", ", columns / ranks,
              "], or is not contiguous");
  TORCH_CHECK(given(f.a_scale), "x1Scale is needed");
  if (f.a_way == kPowers) {
    need_mx_factor("x1", {f.a, *f.a_scale, false});
    need_mx_factor("x2", {f.b, f.b_scale, false});
    TORCH_CHECK(inner_of(f.a) == inner_of(f.b), "the inner sizes are ", inner_of(f.a), " and ", inner_of(f.b));
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(f.a_way == kRow, "x1QuantMode ", f.a_way, " is not implemented; 3 and 6 are");
  const bool whole = f.a.scalar_type() == at::kChar;
  TORCH_CHECK(whole ? f.b.scalar_type() == at::kChar : float8(f.a) && float8(f.b), "factors of ", f.a.scalar_type(),
              " and ", f.b.scalar_type(), " are not both int8 or 8-bit floats");
  TORCH_CHECK(f.a.size(1) == f.b.size(f.turned_b ? 1 : 0), "factors of ", f.a.sizes(), " and ", f.b.sizes());
  need_numbers("x1Scale", f.a_scale, rows);
  need_numbers("x2Scale", f.b_scale, columns);
}

void split_pair_columns(const QuantPair& f, Tensor out) {
  if (!out.numel()) return;
  const int64_t rows = f.a.size(0), parts = out.size(0) / rows;
  Tensor value = at::empty({rows, f.columns()}, out.options().dtype(at::kDouble));
  quant_pair_product(f, value);
  put(out, value.view({rows, parts, out.size(1)}).permute({1, 0, 2}).reshape(out.sizes()));
}

// -- experts

namespace {

void need_ways(const char* what, int64_t left, int64_t right) {
  TORCH_CHECK(left == right, "the ", what, "' quantization modes are ", left, " and ", right, ", not one");
  TORCH_CHECK_NOT_IMPLEMENTED(left == kTensor || left == kPowers, "quantization mode ", left, " of the ", what,
                              " is not implemented; 1 and 6 are");
}

void need_codes_of_both(const char* x_name, const Tensor& x, const char* weight_name, const Tensor& weight) {
  TORCH_CHECK(is_hifloat8(x) == is_hifloat8(weight), x_name, " is of ", x.scalar_type(), ", ", weight_name, " of ",
              weight.scalar_type(), "; hifloat8 goes with itself alone");
}

void need_small(const char* name, const Tensor& t, int64_t way) {
  TORCH_CHECK_NOT_IMPLEMENTED(float8(t) || (way == kPowers && mx::packed(t)) || (way == kTensor && is_hifloat8(t)),
                              name, " of ", t.scalar_type(),
                              " is not implemented; float8_e5m2, float8_e4m3fn and, of MX operands, float4_e2m1 are");
}

// [columns, inner], values, of a weight and its scale.
Tensor weight_rows(const Tensor& weight, const Tensor& scale, bool transposed, int64_t way) {
  const Tensor rows = transposed ? weight : weight.transpose(-1, -2);
  if (way == kTensor) return mx::floats(rows) * scale;
  const Tensor straight =
      mx_scale_turned("a weight's scale", scale, mx::sizes_of(rows)) ? scale.transpose(-2, -3) : scale;
  return mx::values_of(rows, straight, -1);
}

Tensor rows_of(const Tensor& x, const Tensor& scale, int64_t way) {
  return way == kTensor ? mx::floats(x) * scale : mx::values_of(x, scale, -1);
}

void need_scale(const char* name, const Tensor& scale, const Tensor& rows, int64_t way, bool weight) {
  if (way == kTensor) return need_numbers(name, scale, 1);
  TORCH_CHECK(scale.scalar_type() == at::kFloat8_e8m0fnu, name, " is of ", scale.scalar_type(),
              ", float8_e8m0fnu is expected");
  if (weight) return void(mx_scale_turned(name, scale, mx::sizes_of(rows)));
  need_contiguous(name, scale);
  mx::need_sizes(name, scale, mx::scale_sizes(mx::sizes_of(rows), rows.dim() - 1, 32));
}

}  // namespace

void need_quant_experts(const QuantExperts& q, int64_t ranks, const char* name, const Tensor& out) {
  need_experts(q.e, ranks, name, out);
  need_ways("experts", q.x_way, q.weight_way);
  need_small("gmmX", q.e.x, q.x_way);
  need_small("gmmWeight", q.e.weight, q.x_way);
  TORCH_CHECK(mx::packed(q.e.x) == mx::packed(q.e.weight), "gmmX is of ", q.e.x.scalar_type(), ", gmmWeight of ",
              q.e.weight.scalar_type());
  need_codes_of_both("gmmX", q.e.x, "gmmWeight", q.e.weight);
  need_contiguous("gmmX", q.e.x);
  need_scale("gmmXScale", q.x_scale, q.e.x, q.x_way, false);
  need_scale("gmmWeightScale", q.weight_scale, q.e.transposed ? q.e.weight : q.e.weight.transpose(1, 2), q.weight_way,
             true);
  if (!given(q.e.shared_x)) return;
  need_ways("shared expert", q.shared_x_way, q.shared_weight_way);
  need_small("mmX", *q.e.shared_x, q.shared_x_way);
  need_small("mmWeight", *q.e.shared_weight, q.shared_x_way);
  need_codes_of_both("mmX", *q.e.shared_x, "mmWeight", *q.e.shared_weight);
  TORCH_CHECK(given(q.shared_x_scale) && given(q.shared_weight_scale),
              "mmXScale and mmWeightScale are needed with mmX");
  need_scale("mmXScale", *q.shared_x_scale, *q.e.shared_x, q.shared_x_way, false);
  const Tensor& w = *q.e.shared_weight;
  need_scale("mmWeightScale", *q.shared_weight_scale, q.e.shared_transposed ? w : w.transpose(0, 1),
             q.shared_weight_way, true);
}

std::vector<int64_t> arrived_scales(const QuantExperts& q) {
  if (q.x_way != kPowers) return {0};
  return {q.e.arrived()[0], q.x_scale.size(1), 2};
}

void exchange_scales(const Peers& peers, const QuantExperts& q, const Tensor& room) {
  if (q.x_way == kPowers) {
    peers.all_to_all_v(bytes_of(q.x_scale).flatten(1), q.e.sent_rows(), room.flatten(1), q.e.received_rows());
  }
}

void scales_to_experts(const QuantExperts& q, const Tensor& parts, Tensor out) {
  if (q.x_way == kPowers) to_experts(q.e, parts, out);
}

void quant_expert_products(const QuantExperts& q, const Tensor& x, const Tensor& scales, at::IntArrayRef counts,
                           Tensor out) {
  const Experts& e = q.e;
  const Tensor tokens = x.scalar_type() == e.x.scalar_type() ? x : x.view(e.x.scalar_type());
  const bool powers = q.x_way == kPowers;
  const Tensor of_rows = powers ? scales.view(at::kFloat8_e8m0fnu) : q.x_scale;
  int64_t from = 0;
  for (int64_t i = 0; i < e.count(); i++) {
    int64_t rows = 0;
    for (size_t at = static_cast<size_t>(i); at < counts.size(); at += static_cast<size_t>(e.count()))
      rows += counts[at];
    if (rows) {
      const Tensor part = powers ? of_rows.narrow(0, from, rows) : of_rows;
      const Tensor right =
          weight_rows(e.weight[i], powers ? q.weight_scale[i] : q.weight_scale, e.transposed, q.weight_way);
      Tensor place = out.narrow(0, from, rows);
      put(place, at::matmul(rows_of(tokens.narrow(0, from, rows), part, q.x_way), right.t()));
    }
    from += rows;
  }
}

void quant_shared_product(const QuantExperts& q) {
  const Experts& e = q.e;
  if (!given(e.shared_x)) return;
  const Tensor right = weight_rows(*e.shared_weight, *q.shared_weight_scale, e.shared_transposed, q.shared_weight_way);
  Tensor out = e.shared_out;
  put(out, at::matmul(rows_of(*e.shared_x, *q.shared_x_scale, q.shared_x_way), right.t()));
}

}  // namespace softnpu::ops::kernels
