// Quantization behind gates and their gradients: see mx.h.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/rounded.h"

namespace softnpu::ops::kernels {

using namespace mx;

namespace {

void need_list(const char* name, const Maybe& list) {
  if (!given(list)) return;
  const auto type = list->scalar_type();
  TORCH_CHECK(list->dim() == 1 && list->size(0) > 0, name, " has the sizes ", list->sizes(),
              ", one dimension is expected");
  TORCH_CHECK(type == at::kInt || type == at::kLong, name, " is int32 or int64, not ", type);
}

// The rows, of all, that counts of groups name.
Tensor counted(const Maybe& counts, int64_t rows) {
  const int64_t n = given(counts) ? std::min(counts->to(at::kLong).sum().item<int64_t>(), rows) : rows;
  return at::arange(rows, at::kLong).lt(n).unsqueeze(1);
}

std::vector<int64_t> halved(const Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() /= 2;
  return sizes;
}

struct Halves {
  Tensor gate, linear;
};
Halves halves(const Tensor& x, int64_t dim, bool left) {
  const int64_t half = x.size(dim) / 2;
  const Tensor a = x.narrow(dim, 0, half), b = x.narrow(dim, half, half);
  return left ? Halves{a, b} : Halves{b, a};
}

// Results of hifloat8: with a factor that is given (quantMode 2), or by the largest magnitude (3), of each group or of all rows.
// The documents do not say which small number keeps a group of zeros from a division by zero.
constexpr double kLeastLargest = 1e-30;
bool to_codes(const GroupGate& gate) { return gate.mode == 2 || gate.mode == 3; }
int64_t groups_of(const GroupGate& gate) { return given(gate.counts) ? gate.counts->size(0) : 1; }

void need_codes(const Tensor& x, const GroupGate& gate, const Tensor& y, const Tensor& scale, const Tensor& origin) {
  TORCH_CHECK(is_hifloat8(y), "yOut is of ", y.scalar_type(), "; quantMode ", gate.mode, " has hifloat8");
  need_sizes("yOut", y, halved(x));
  TORCH_CHECK(scale.scalar_type() == at::kFloat, "yScaleOut is ", scale.scalar_type(), ", float32 is expected");
  if (gate.mode == 2) {
    TORCH_CHECK(passed(gate.scale), "scale is needed with quantMode 2");
    need_sizes("scale", *gate.scale, {groups_of(gate)});
  } else {
    constexpr std::array<double, 4> kLargest = {15, 56, 224, kHifloat8Largest};
    TORCH_CHECK(std::find(kLargest.begin(), kLargest.end(), gate.largest) != kLargest.end(), "dstTypeMax ",
                gate.largest, " is not 15, 56, 224 or 32768");
    need_sizes("yScaleOut", scale, {groups_of(gate)});
  }
  if (!gate.origin) return;
  TORCH_CHECK(origin.defined() && origin.scalar_type() == x.scalar_type(), "yOriginOut is not of ", x.scalar_type(),
              ", as x is");
  need_sizes("yOriginOut", origin, halved(x));
}

void put_codes(Tensor& y, Tensor& scale, const Tensor& value, const GroupGate& gate) {
  Tensor group = at::zeros({value.size(0)}, at::kLong);
  if (given(gate.counts)) {
    const Tensor ends = gate.counts->to(at::kLong).cumsum(0);
    group = at::searchsorted(ends, at::arange(value.size(0), at::kLong), false, true).clamp_max(ends.size(0) - 1);
  }
  if (gate.mode == 2) {
    return put_rounded(y, (value * gate.scale->index_select(0, group).unsqueeze(1)).reshape(y.sizes()));
  }
  const Tensor most = at::zeros({groups_of(gate)}, at::kFloat).scatter_reduce(0, group, value.abs().amax(1), "amax");
  const Tensor step = most.clamp_min(kLeastLargest) / gate.largest;
  put(scale, step);
  put_rounded(y, (value / step.index_select(0, group).unsqueeze(1)).reshape(y.sizes()));
}

// Of silu at a.
Tensor slope(const Tensor& a) {
  const Tensor s = at::sigmoid(a);
  return s * (1 + a * (1 - s));
}

}  // namespace

void need_mx_gate(const Tensor& x, const Maybe& groups, const MxGate& gate, const MxForm& form, const Tensor& y,
                  const Tensor& scale) {
  TORCH_CHECK(x.dim() >= 2, "x has ", x.dim(), " dimensions, at least two are expected");
  TORCH_CHECK(gate.mode >= 0 && gate.mode <= 3, "swigluMode ", gate.mode, " is not 0 to 3");
  TORCH_CHECK(gate.group_mode == 0 || gate.group_mode == 1, "groupMode ", gate.group_mode, " is not 0 or 1");
  const int64_t last = x.dim() - 1, dim = dim_of("activateDim", x, gate.dim), axis = dim_of("axis", x, gate.axis);
  TORCH_CHECK(dim >= last - 1 && axis >= last - 1, "activateDim and axis are of the last two dimensions");
  TORCH_CHECK(dim == last || gate.mode == 0, "swigluMode ", gate.mode, " goes with the last activateDim");
  TORCH_CHECK(gate.mode < 2 || axis == last, "swigluMode ", gate.mode, " goes with the last axis");
  TORCH_CHECK(!given(groups) || (dim == last && axis == last),
              "groupIndex is implemented along the last dimension alone");
  need_list("groupIndex", groups);
  TORCH_CHECK(gate.mode == 0 || gate.limit > 0, "clampLimit ", gate.limit, " is not positive");
  TORCH_CHECK(x.size(dim) % 2 == 0, "dimension ", dim, " of ", x.size(dim), " is not even");
  need_floating("x", x);
  need_form(form, y, {0, 1});
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[dim] /= 2;
  need_sizes("yOut", y, sizes);
  need_sizes("mxscaleOut", scale, scale_sizes(sizes, axis, 32));
}

void mx_gate(const Tensor& x, const MxGate& gate, const MxForm& form, Tensor& y, Tensor& scale) {
  if (x.numel() == 0) return;
  const Tensor value = floats(x);
  const int64_t dim = dim_of("activateDim", x, gate.dim);
  auto [glu, linear] = halves(value, dim, gate.left);
  if (gate.mode == 1) {
    const Tensor pairs = value.unflatten(-1, {x.size(-1) / 2, 2});
    glu = pairs.select(-1, 0);
    linear = pairs.select(-1, 1);
  }
  Tensor out;
  if (gate.mode == 0) {
    out = at::silu(glu) * linear;
  } else if (gate.mode == 3) {
    out = at::silu(glu).clamp_max(gate.limit) * linear.clamp(-gate.limit, gate.limit);
  } else {
    glu = glu.clamp_max(gate.limit);
    out = glu * at::sigmoid(glu * gate.alpha) * (linear.clamp(-gate.limit, gate.limit) + gate.bias);
  }
  put_blocks(y, scale, out, dim_of("axis", x, gate.axis), element(y.scalar_type()), form);
}

void need_mx_gate_twice(const Tensor& x, const Maybe& gradient, const Maybe& ends, const MxForm& form,
                        const TwoAxes& out) {
  TORCH_CHECK(x.dim() >= 2, "x has ", x.dim(), " dimensions, at least two are expected");
  TORCH_CHECK(x.size(-1) % 2 == 0, "the last dimension of x, ", x.size(-1), ", is not even");
  TORCH_CHECK(!given(ends) || x.dim() == 2, "groupIndex goes with x of two dimensions, not ", x.dim());
  need_list("groupIndex", ends);
  need_floating("x", x);
  std::vector<int64_t> sizes = x.sizes().vec(), half = sizes;
  half.back() /= 2;
  if (given(gradient)) {
    need_sizes("yGrad", *gradient, half);
    TORCH_CHECK(gradient->scalar_type() == x.scalar_type(), "yGrad is ", gradient->scalar_type(), ", x ",
                x.scalar_type());
  } else {
    sizes = half;
  }
  need_form(form, out.y1, {0, 1});
  need_form(form, out.y2, {0, 1});
  TORCH_CHECK(form.largest == 0, "maxDtypeValue ", form.largest, " is not 0");
  need_sizes("y1Out", out.y1, sizes);
  need_sizes("y2Out", out.y2, sizes);
  const int64_t last = x.dim() - 1;
  need_sizes("mxscale1Out", out.scale1, scale_sizes(sizes, last, 32));
  std::vector<int64_t> along_rows = scale_sizes(sizes, last - 1, 32);
  if (given(ends)) along_rows[last - 1] = x.size(-2) / 64 + ends->size(0);
  TORCH_CHECK(out.scale2.defined(), "mxscale2Out is null");
  need_sizes("mxscale2Out", out.scale2, along_rows);
}

void mx_gate_twice(const Tensor& x, const Maybe& gradient, const Maybe& ends, bool left, const MxForm& form,
                   const TwoAxes& out) {
  if (x.numel() == 0) return;
  const int64_t last = x.dim() - 1;
  const auto [a, b] = halves(floats(x), last, left);
  Tensor value = at::silu(a) * b;
  if (given(gradient)) {
    const Tensor dy = floats(*gradient), da = dy * b * slope(a), db = dy * at::silu(a);
    value = at::cat({da, db}, -1);
  }
  const Element e = element(out.y1.scalar_type());
  put_blocks(out.y1, out.scale1, value, last, e, form);
  if (given(ends)) return put_grouped(out.y2, out.scale2, value, *ends, e, form);
  put_blocks(out.y2, out.scale2, value, last - 1, e, form);
}

void need_group_gate(const Tensor& x, const GroupGate& gate, const Tensor& y, const Tensor& scale,
                     const Tensor& origin) {
  TORCH_CHECK(gate.mode >= 0 && gate.mode <= 3, "quantMode ", gate.mode, " is not 0 to 3");
  TORCH_CHECK(x.dim() >= 2, "x has ", x.dim(), " dimensions, at least two are expected");
  need_floating("x", x);
  TORCH_CHECK(x.size(-1) % 2 == 0, "the last dimension of x, ", x.size(-1), ", is not even");
  const int64_t rows = c10::multiply_integers(x.sizes().slice(0, x.dim() - 1));
  TORCH_CHECK(gate.limit == -1 || gate.limit > 0, "clampLimit ", gate.limit, " is not -1 or positive");
  if (given(gate.weight)) {
    TORCH_CHECK(gate.weight->numel() == rows, "weight has ", gate.weight->numel(), " numbers for ", rows, " rows");
  }
  need_list("groupIndex", gate.counts);
  if (to_codes(gate)) return need_codes(x, gate, y, scale, origin);
  const Element e = need_form({{}, gate.type}, y, {0});
  TORCH_CHECK(e.mantissa == 0 || gate.mode == 1, "yOut of ", y.scalar_type(), " goes with quantMode 1");
  const int64_t block = gate.mode == 1 ? 32 : 128;
  TORCH_CHECK(gate.block == 0 || gate.block == block, "blockSize ", gate.block, " is not 0 or ", block);
  TORCH_CHECK(gate.mode == 0 || gate.round, "roundScale is needed with quantMode 1");
  TORCH_CHECK(!gate.origin, "outputOrigin goes with quantMode 2 and 3");
  std::vector<int64_t> sizes = halved(x);
  need_sizes("yOut", y, sizes);
  const auto wanted = gate.mode == 1 ? at::kFloat8_e8m0fnu : at::kFloat;
  TORCH_CHECK(scale.scalar_type() == wanted, "yScaleOut is ", scale.scalar_type(), ", ", wanted, " is expected");
  if (gate.mode == 1) return need_sizes("yScaleOut", scale, scale_sizes(sizes, x.dim() - 1, 32));
  sizes.back() = (sizes.back() + 127) / 128;
  need_sizes("yScaleOut", scale, sizes);
}

void group_gate_quant(const Tensor& input, const GroupGate& gate, Tensor& y, Tensor& scale, Tensor& origin) {
  if (input.numel() == 0) {
    if (gate.mode == 3) scale.fill_(kLeastLargest / gate.largest);  // one a group, of no rows
    return;
  }
  const Tensor x = floats(input).flatten(0, -2);
  auto [a, b] = halves(x, 1, true);
  if (gate.limit > 0) {
    a = a.clamp_max(gate.limit);
    b = b.clamp(-gate.limit, gate.limit);
  }
  const Tensor there = counted(gate.counts, x.size(0)), activated = at::silu(a) * b;
  Tensor value = given(gate.weight) ? activated * floats(*gate.weight).reshape({-1, 1}) : activated;
  value = value.masked_fill(there.logical_not(), 0);
  // Before the weight, whose gradient is made of it.
  if (gate.origin) put(origin, activated.masked_fill(there.logical_not(), 0).reshape(origin.sizes()));
  if (to_codes(gate)) return put_codes(y, scale, value, gate);
  constexpr double kLeast = 1e-4;
  const Element e = element(y.scalar_type());
  if (gate.mode == 1) {
    // By the type's largest number, of 4-bit types as of those of 8 bits, for which alone the documents write it out.
    const Tensor exponent = exponents(block_maxima(value, 1, 32), e, {.alg = 1, .least = kLeast});
    const auto shaped = [&](const Tensor& t) {
      std::vector<int64_t> sizes = input.sizes().vec();
      sizes.back() = t.size(1);
      return t.reshape(sizes);
    };
    put_scaled(y, shaped(value), shaped(spread(exponent, 1, 32, value.size(1))), e, "rint");
    return put_scales(scale, shaped(exponent.masked_fill(there.logical_not(), 0)), input.dim() - 1);
  }
  const Tensor finite = at::where(value.isfinite(), value, 0);
  Tensor step = block_maxima(finite, 1, 128).clamp_min(kLeast) / e.largest;
  if (gate.round) {
    // The next power of two: the exponent of its bits, and one more where there is a mantissa.
    const Tensor power = exponents(step, {0, 1, 0}, {.alg = 1});
    step = times_powers(step.new_ones({}), power);
  }
  const Tensor scaled = value / spread(step, 1, 128, value.size(1));
  put_elements(y, at::where(scaled.isfinite(), scaled, value).reshape(y.sizes()), e, "rint");
  put(scale, step.masked_fill(there.logical_not(), 0).reshape(scale.sizes()));
}

void need_group_gate_backward(const Tensor& dy, const Tensor& x, const GroupGateGrad& gate, const Tensor& dx,
                              const Tensor& dweight) {
  TORCH_CHECK(x.dim() >= 2 && x.size(-1) % 2 == 0, "x has the sizes ", x.sizes(), ", an even last one is expected");
  need_floating("x", x);
  std::vector<int64_t> half = x.sizes().vec();
  half.back() /= 2;
  need_sizes("gradY", dy, half);
  need_sizes("gradXOut", dx, x.sizes());
  TORCH_CHECK(gate.limit == -1 || gate.limit >= 0, "clampLimit ", gate.limit, " is not -1 or positive");
  need_list("groupIndex", gate.counts);
  const int64_t rows = c10::multiply_integers(x.sizes().slice(0, x.dim() - 1));
  if (!given(gate.weight)) return;
  TORCH_CHECK(gate.weight->numel() == rows, "weight has ", gate.weight->numel(), " numbers for ", rows, " rows");
  TORCH_CHECK(given(gate.origin), "yOrigin is needed with weight");
  need_sizes("yOrigin", *gate.origin, half);
  TORCH_CHECK(dweight.defined(), "gradWeightOut is null, and there is a weight");
  need_sizes("gradWeightOut", dweight, gate.weight->sizes());
}

void group_gate_backward(const Tensor& gradient, const Tensor& input, const GroupGateGrad& gate, Tensor& dx,
                         Tensor& dweight) {
  if (input.numel() == 0) return;
  const Tensor x = floats(input).flatten(0, -2), dy = floats(gradient).flatten(0, -2);
  const Tensor gone = counted(gate.counts, x.size(0)).logical_not();
  const auto [a, b] = halves(x, 1, true);
  const double c = gate.limit;
  const Tensor glu = c > 0 ? a.clamp_max(c) : a, linear = c > 0 ? b.clamp(-c, c) : b;
  const Tensor weighted = given(gate.weight) ? dy * floats(*gate.weight).reshape({-1, 1}) : dy;
  Tensor da = weighted * linear * slope(glu), db = weighted * at::silu(glu);
  if (c > 0) {
    da = da.masked_fill(a.lt(c).logical_not(), 0);
    db = db.masked_fill(b.gt(-c).logical_and(b.lt(c)).logical_not(), 0);
  }
  put(dx, at::cat({da, db}, 1).masked_fill(gone, 0).reshape(input.sizes()));
  if (!given(gate.weight)) return;
  const Tensor sum = (dy * floats(*gate.origin).flatten(0, -2)).sum(-1, true).masked_fill(gone, 0);
  put(dweight, sum.reshape(dweight.sizes()));
}

}  // namespace softnpu::ops::kernels
