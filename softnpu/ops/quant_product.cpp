// Products of groups and of quantized operands: see fused_quant.h.
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "softnpu/ops/fused_quant.h"
#include "softnpu/ops/in_halves.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {
namespace {

// Running ends of groups.
std::vector<int64_t> ends_of(const Tensor& list, int64_t kind, int64_t rows) {
  TORCH_CHECK_NOT_IMPLEMENTED(kind == 0 || kind == 1, "a group list of type ", kind, " is not implemented");
  const Tensor flat = list.flatten().to(at::kLong).contiguous();
  const Tensor ends = kind == 0 ? flat : at::cumsum(flat, 0);
  std::vector<int64_t> out;
  int64_t last = 0;
  for (int64_t i = 0; i < ends.numel(); i++) {
    out.push_back(ends[i].item<int64_t>());
    TORCH_CHECK(out.back() >= last && out.back() <= rows, "the ends of groups ", last, " and ", out.back(), " of ",
                rows, " rows");
    last = out.back();
  }
  return out;
}
// A float of the upper bits of 64, as quantized products take scales.
Tensor plain_scale(const Tensor& t) {
  if (t.scalar_type() != at::kLong && t.scalar_type() != at::kUInt64) return wide(t);
  const Tensor bits = t.scalar_type() == at::kLong ? t : t.view(at::kLong);
  return bits.bitwise_and(0xFFFFFFFF).to(at::kInt).view(at::kFloat);
}

}  // namespace

void grouped_matmul_add(const Tensor& x, const Tensor& weight, const Tensor& groups, bool transpose_x,
                        bool transpose_weight, int64_t type, int64_t list_type, Tensor& y) {
  TORCH_CHECK_NOT_IMPLEMENTED(type == 2 && transpose_x && !transpose_weight,
                              "aclnnGroupedMatmulAdd: only groups of the inner dimension, of a transposed x");
  const auto ends = ends_of(groups, list_type, x.size(0));
  const int64_t count = int64_t(ends.size()), m = x.size(1), n = weight.size(1);
  TORCH_CHECK(y.numel() == count * m * n, "aclnnGroupedMatmulAdd: y of ", y.sizes(), " for ", count, " products of ", m,
              " x ", n);
  Tensor place = y.view({count, m, n});
  int64_t from = 0;
  for (int64_t i = 0; i < count; i++) {
    const Tensor a = wide(x.narrow(0, from, ends[i] - from)), b = wide(weight.narrow(0, from, ends[i] - from));
    place[i].add_(at::matmul(a.t(), b));
    from = ends[i];
  }
}

void add_lora(const Tensor& y, const Tensor& x, const Tensor& b, const Tensor& indices, const Maybe& a, int64_t layer,
              double scale, int64_t from, int64_t count, Tensor& out) {
  const Tensor at = indices.flatten().to(at::kLong);
  const int64_t columns = count < 0 ? b.size(2) : count;
  TORCH_CHECK(b.dim() == 4 && layer >= 0 && layer < b.size(1) && from >= 0 && from + columns <= y.size(1),
              "aclnnAddLora: weights of ", b.sizes(), ", layer ", layer, ", columns ", from, " to ", from + columns);
  // A number past the last set of weights means none.
  const Tensor used = at.ge(0).logical_and(at.lt(b.size(0))), place = at.where(used, at.new_zeros({}));
  Tensor z = wide(x).unsqueeze(1);
  if (given(a)) z = at::bmm(z, wide(a->select(1, layer)).index_select(0, place).transpose(1, 2));
  z = at::bmm(z, wide(b.select(1, layer)).index_select(0, place).transpose(1, 2)).squeeze(1) * scale;
  Tensor sum = wide(y).clone();
  sum.narrow(1, from, columns).add_(z.masked_fill(used.logical_not().unsqueeze(1), 0));
  put(out, sum);
}

Tensor activated(const Tensor& x, std::string_view name) {
  if (name == "relu") return at::relu(x);
  if (name == "silu") return at::silu(x);
  if (name == "gelu" || name == "gelu_erf") return at::gelu(x, "none");
  if (name == "gelu_tanh") return at::gelu(x, "tanh");
  if (name == "fastgelu") return x * at::sigmoid(x * 1.702);
  if (name == "swiglu" || name == "geglu" || name == "reglu") {
    const auto parts = in_halves(x, -1);
    return activated(parts[0], name == "swiglu" ? "silu" : name == "geglu" ? "gelu" : "relu") * parts[1];
  }
  TORCH_CHECK_NOT_IMPLEMENTED(name.empty(), "the activation ", std::string(name), " is not implemented");
  return x;
}

void feed_forward(const Tensor& x, const Tensor& w1, const Tensor& w2, at::IntArrayRef tokens, bool ends,
                  const Maybe& b1, const Maybe& b2, std::string_view activation, Tensor& y) {
  const Tensor rows = wide(x).flatten(0, -2);
  const auto one = [&](const Tensor& part, int64_t expert) {
    const auto of = [&](const Tensor& t, int64_t dims) { return wide(t.dim() > dims ? t[expert] : t); };
    Tensor h = at::matmul(part, of(w1, 2));
    if (given(b1)) h = h + of(*b1, 1);
    h = at::matmul(activated(h, activation), of(w2, 2));
    return given(b2) ? h + of(*b2, 1) : h;
  };
  if (tokens.empty()) return put(y, one(rows, 0).reshape(y.sizes()));
  std::vector<Tensor> parts;
  int64_t from = 0;
  for (size_t e = 0; e < tokens.size(); e++) {
    const int64_t to = ends ? tokens[e] : from + tokens[e];
    TORCH_CHECK(to >= from && to <= rows.size(0), "aclnnFFN: rows ", from, " to ", to, " of ", rows.size(0));
    parts.push_back(one(rows.narrow(0, from, to - from), int64_t(e)));
    from = to;
  }
  put(y, at::cat(parts, 0).reshape(y.sizes()));
}

void transposed_matmul(const Tensor& a, const Tensor& b, const Maybe& scale, at::IntArrayRef perm_a,
                       at::IntArrayRef perm_b, at::IntArrayRef perm_out, int64_t split, Tensor& out) {
  const auto moved = [](const Tensor& t, at::IntArrayRef perm) { return perm.empty() ? t : t.permute(perm); };
  Tensor value = at::bmm(wide(moved(a, perm_a)), wide(moved(b, perm_b))).permute(perm_out);
  if (given(scale)) {
    value = value.reshape({value.size(0), 1, -1}) * plain_scale(*scale);
    if (out.scalar_type() == at::kChar) return put_rounded(out, value.reshape(out.sizes()));
    return put(out, value.reshape(out.sizes()));
  }
  if (split > 1) value = value.reshape({value.size(0), split, -1}).transpose(0, 1);
  put(out, value.reshape(out.sizes()));
}

Tensor quantized_product(const Tensor& a, const Tensor& b, const Maybe& row_scale, const Maybe& scale,
                         const Maybe& bias) {
  Tensor value = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
  const bool first = given(bias) && bias->scalar_type() == at::kInt;
  if (first) value = value + bias->to(at::kDouble);
  if (given(scale)) value = value * plain_scale(*scale).to(at::kDouble);
  if (given(row_scale)) {
    const Tensor s = row_scale->to(at::kDouble);
    value = value * (s.numel() == 1 ? s.reshape({}) : s.unsqueeze(-1));
  }
  return given(bias) && !first ? value + bias->to(at::kDouble) : value;
}

void quant_matmul_dequant(const Tensor& x, const Tensor& weight, const Tensor& scale, const Maybe& groups,
                          const Maybe& x_scale, const Maybe& smooth, std::string_view mode, bool transpose,
                          Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(mode.empty() || mode == "pertoken" || mode == "pertensor",
                              "aclnnQuantMatmulDequant: the mode ", std::string(mode), " is not implemented");
  Tensor value = wide(x);
  if (given(smooth)) value = value * wide(*smooth);
  Tensor step;
  if (given(x_scale)) {
    step = x_scale->numel() == 1 ? wide(*x_scale).reshape({1, 1}) : wide(*x_scale).reshape({-1, 1});
  } else {
    step = (mode == "pertensor" ? value.abs().amax().reshape({1, 1}) : value.abs().amax(-1, true)) / 127;
  }
  const Tensor rounded = (value / step.masked_fill(step.eq(0), 1)).round().clamp(-128, 127);
  const Maybe rows(step.expand({x.size(0), 1}).squeeze(1));
  const auto matrix = [&](const Tensor& w) { return transpose ? w.transpose(-1, -2) : w; };
  if (!given(groups)) return put(out, quantized_product(rounded, matrix(weight), rows, scale, {}));
  const auto ends = ends_of(*groups, 0, x.size(0));
  TORCH_CHECK(weight.dim() == 3 && weight.size(0) == int64_t(ends.size()),
              "aclnnQuantGroupedMatmulDequant: ", ends.size(), " groups, weights of ", weight.sizes());
  Tensor all = at::zeros(out.sizes(), out.options().dtype(at::kDouble));
  int64_t from = 0;
  for (size_t g = 0; g < ends.size(); g++) {
    const int64_t n = ends[g] - from;
    all.narrow(0, from, n)
        .copy_(
            quantized_product(rounded.narrow(0, from, n), matrix(weight[g]), rows->narrow(0, from, n), scale[g], {}));
    from = ends[g];
  }
  put(out, all);
}

void fused_matmul(const Tensor& a, const Tensor& b, const Maybe& bias, const Maybe& other, std::string_view name,
                  Tensor& out) {
  Tensor value = at::matmul(wide(a), wide(b));
  if (given(bias)) value = value + wide(*bias);
  if (name == "add" || name == "mul") {
    TORCH_CHECK(given(other), "aclnnFusedMatmul: ", std::string(name), " needs x3");
    return put(out, name == "add" ? value + wide(*other) : value * wide(*other));
  }
  put(out, activated(value, name == "16cast32" ? "" : name));
}

void grouped_swiglu_quant(const Tensor& x, at::TensorList weight, at::TensorList scale, const Tensor& x_scale,
                          const Tensor& groups, int64_t list_type, const Maybe& smooth, Tensor& out,
                          Tensor& out_scale) {
  const auto ends = ends_of(groups, list_type, x.size(0));
  const auto part = [](at::TensorList list, size_t i) {
    return list.size() > 1 ? list[i] : list[0].dim() > 1 && list[0].size(0) > int64_t(i) ? list[0][i] : list[0];
  };
  const Tensor rows = wide(x_scale).flatten();
  out.zero_();
  out_scale.zero_();
  int64_t from = 0;
  for (size_t g = 0; g < ends.size(); g++) {
    const int64_t n = ends[g] - from;
    const Tensor s = part(scale, g);
    TORCH_CHECK_NOT_IMPLEMENTED(s.dim() <= 1, "aclnnGroupedMatmulSwigluQuant: scales by group are not implemented");
    const Tensor c =
        quantized_product(x.narrow(0, from, n), part(weight, g), rows.narrow(0, from, n), s, {}).to(at::kFloat);
    const auto halves = in_halves(c, -1);
    Tensor value = at::silu(halves[0]) * halves[1];
    if (given(smooth)) value = value * wide(smooth->dim() > 1 ? (*smooth)[int64_t(g)] : *smooth);
    Tensor place = out.narrow(0, from, n), place_scale = out_scale.narrow(0, from, n);
    if (n > 0) put(place_scale, put_dynamic_rows(place, value).squeeze(1));
    from = ends[g];
  }
}

void grouped_finalize(const Tensor& x, const Tensor& weight, const Maybe& scale, const Maybe& bias,
                      const Maybe& row_scale, const Maybe& groups, int64_t list_type, const Finalized& f, Tensor& out) {
  TORCH_CHECK(given(groups) && weight.dim() == 3,
              "aclnnGroupedMatmulFinalizeRouting: groups and weights of three "
              "dimensions are needed");
  const auto ends = ends_of(*groups, list_type, x.size(0));
  Tensor all = at::zeros({x.size(0), weight.size(2)}, x.options().dtype(at::kFloat));
  int64_t from = 0;
  for (size_t g = 0; g < ends.size(); g++) {
    const int64_t n = ends[g] - from;
    const auto of = [&](const Maybe& t) { return given(t) ? Maybe((*t)[int64_t(g)].reshape({-1})) : Maybe(); };
    const Maybe rows = given(row_scale) ? Maybe(row_scale->flatten().narrow(0, from, n)) : Maybe();
    all.narrow(0, from, n)
        .copy_(quantized_product(x.narrow(0, from, n), weight[int64_t(g)], rows, of(scale), of(bias)));
    from = ends[g];
  }
  if (given(f.logit)) all.mul_(wide(*f.logit).reshape({-1, 1}));
  Tensor sum = at::zeros(out.sizes(), all.options());
  if (given(f.row)) {
    sum.index_add_(0, f.row->flatten().to(at::kLong).narrow(0, 0, from), all.narrow(0, 0, from));
  } else {
    sum.copy_(all);
  }
  if (given(f.shared)) sum.narrow(0, f.offset, f.shared->size(0)).add_(wide(*f.shared) * f.weight);
  put(out, sum);
}

}  // namespace softnpu::ops::kernels
