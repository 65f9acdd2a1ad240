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
#include "softnpu/ops/low_bits.h"
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
  // A number past the last set of weights means none; of no sets every one is.
  if (b.size(0) == 0) return put(out, y);
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

void need_no_bias(const Maybe& bias) {
  TORCH_CHECK(!given(bias),
              "bias of a transposed product: its shape is not documented; leave it out and add it to out");
}

void transposed_matmul(const Tensor& a, const Tensor& b, const Maybe& scale, at::IntArrayRef perm_a,
                       at::IntArrayRef perm_b, at::IntArrayRef perm_out, int64_t split, Tensor& out) {
  const auto moved = [](const Tensor& t, at::IntArrayRef perm) { return perm.empty() ? t : t.permute(perm); };
  Tensor value = at::bmm(wide(moved(a, perm_a)), wide(moved(b, perm_b))).permute(perm_out);
  if (given(scale)) {
    value = value.reshape({value.size(0), 1, -1}) * scale_values(*scale);
    if (out.scalar_type() == at::kChar) return put_rounded(out, value.reshape(out.sizes()));
    return put(out, value.reshape(out.sizes()));
  }
  if (split > 1) value = value.reshape({value.size(0), split, -1}).transpose(0, 1);
  put(out, value.reshape(out.sizes()));
}

void need_whole_product(const Tensor& a, const Tensor& b, const Tensor& out) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "x1 is of ", a.scalar_type(), ", x2 of ", b.scalar_type());
  const std::vector<int64_t> left = low_sizes(a), right = low_sizes(b);
  TORCH_CHECK(left.size() >= 2 && right.size() >= 2 && left.back() == right[right.size() - 2], "x1 of ",
              IntArrayRef(left), " and x2 of ", IntArrayRef(right), " have no product");
  TORCH_CHECK(out.dim() >= 2 && out.size(-1) == right.back() && out.size(-2) == left[left.size() - 2], "out of ",
              out.sizes(), " for x1 of ", IntArrayRef(left), " and x2 of ", IntArrayRef(right));
}

Tensor quantized_product(const Tensor& a, const Tensor& b, const Maybe& row_scale, const Maybe& scale,
                         const Maybe& bias) {
  const auto values = [](const Tensor& t) {
    if (is_hifloat8(t)) return hifloat8_values(t).to(at::kDouble);
    return (t.scalar_type() == at::kInt ? int4_values(t) : t).to(at::kDouble);
  };
  Tensor value = at::matmul(values(a), values(b));
  const bool first = given(bias) && bias->scalar_type() == at::kInt;
  if (first) value = value + bias->to(at::kDouble);
  if (given(scale)) value = value * scale_values(*scale).to(at::kDouble);
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

}  // namespace softnpu::ops::kernels
