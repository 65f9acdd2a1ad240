// See parts.h.
#include "csrc/ops/npu/parts.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/sparse_rows.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {

using at::Tensor;

Tensor filled_ranges(const Tensor& input, const Tensor& begin, const Tensor& end, const Tensor& value, int64_t axis) {
  const char* const op = "npu_masked_fill_range";
  need_dims(op, "input", input, {1, 2, 3});
  const int64_t dim = wrap(input, axis), last = input.dim() - 1;
  need_dims(op, "start", begin, {2});
  need_sizes(op, "end", end, sizes_of(begin));
  need_sizes(op, "value", value, {begin.sym_size(0)});
  const bool by_row = last > 0 && dim == last;  // a range for each of the first dimension; else one along the axis
  if (by_row) need_sizes(op, "start", begin, {-1, input.sym_size(0)});
  const Tensor place = at::arange(known(input, dim), begin.options());
  Tensor out = input;
  for (int64_t i = 0; i < known(begin, 0); ++i) {
    const Tensor hit = place.ge(begin[i].unsqueeze(-1)).logical_and(place.lt(end[i].unsqueeze(-1)));  // [ranges, axis]
    std::vector<int64_t> shape(input.dim(), 1);
    shape[dim] = -1;
    if (by_row) shape[0] = known(input, 0);
    out = at::where((by_row ? hit : hit.any(0)).view(shape), value[i].to(input.scalar_type()), out);
  }
  return out.is_same(input) ? input.clone() : out;
}

Tensor normalized_sequences(const Tensor& input, const Tensor& lengths, int64_t kind) {
  const char* const op = "npu_normalize_batch";
  need_dims(op, "input", input, {3});
  need_sizes(op, "seq_len", lengths, {input.sym_size(0)});
  need_integers(op, "seq_len", lengths);
  check_number(op, "normalize_type", kind, {0, 1});
  const Tensor x = wide(input);
  const Tensor inside = at::arange(known(x, 2), lengths.options()).lt(lengths.view({-1, 1, 1})).to(x.scalar_type());
  const std::vector<int64_t> over = kind == 0 ? std::vector<int64_t>{2} : std::vector<int64_t>{1, 2};
  const Tensor count = (inside * at::ones_like(x)).sum(over, true), mean = (x * inside).sum(over, true) / count;
  const Tensor off = (x - mean) * inside, variance = (off * off).sum(over, true) / (count - 1);
  const Tensor flat = variance.eq(0);  // where a root has no gradient
  const Tensor deviation = at::where(flat, 0, at::where(flat, 1, variance).sqrt());
  return ((x - mean) / (deviation + 1e-5)).to(input.scalar_type());
}

Tensor added_channels(const Tensor& a, const Tensor& b, const at::Scalar& from_a, const at::Scalar& from_b,
                      const at::Scalar& blocks) {
  const char* const op = "npu_stride_add";
  need_dims(op, "input", a, {5});
  need_dims(op, "other", b, {5});
  const int64_t channels = blocks.toLong() * 16;
  const auto part = [&](const char* name, const Tensor& t, int64_t from) {
    const int64_t have = known(t, 1) - from;
    TORCH_CHECK_VALUE(from >= 0 && have >= 0 && have <= channels, op, ": ", name, " has ", t.size(1),
                      " channels; from offset ", from, " on there are at most 16 * c1_len, ", channels);
    return at::constant_pad_nd(t.narrow(1, from, have), {0, 0, 0, 0, 0, 0, 0, channels - have});
  };
  return part("input", a, from_a.toLong()) + part("other", b, from_b.toLong());
}

namespace {
// Random numbers in [0, 1): of the device's generator, or of one that starts at the seeds.
Tensor numbers(const Tensor& like, int64_t seed, int64_t seed2) {
  if (seed == 0 && seed2 == 0) return at::rand(like.sizes(), like.options().dtype(at::kFloat));
  const at::Generator own = at::detail::createCPUGenerator(static_cast<uint64_t>(seed) * 0x9E3779B97F4A7C15u + seed2);
  return at::rand(like.sizes(), own, at::TensorOptions(at::kFloat)).to(like.device());
}
}  // namespace

Pair random_choice(const Tensor& x, int64_t count, int64_t seed, int64_t seed2) {
  const char* const op = "npu_random_choice_with_mask";
  need_type(op, "x", x, {at::kBool});
  TORCH_CHECK_VALUE(count >= 0, op, ": count is ", count);
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.dim() <= 5, op, ": x has ", x.dim(), " dimensions, not 1 to 5");
  const Tensor flat = x.flatten();
  if (count == 0) count = flat.sum().item<int64_t>();
  // Random numbers where x is true, larger ones elsewhere: their order is the choice.
  const Tensor key = at::where(flat, numbers(flat, seed, seed2), 2);
  const int64_t kept = std::min(count, known(flat, 0));
  Tensor place = std::get<1>(key.sort(/*stable=*/true, 0, /*descending=*/false)).narrow(0, 0, kept);
  const Tensor real = flat.index_select(0, place);
  place = at::where(real, place, 0);
  std::vector<Tensor> index(x.dim());
  for (int64_t d = x.dim() - 1; d >= 0; --d) {
    index[d] = place.remainder(known(x, d));
    place = place.div(known(x, d), "floor");
  }
  return {at::constant_pad_nd(at::stack(index, 1), {0, 0, 0, count - kept}).to(at::kInt),
          at::constant_pad_nd(real, {0, count - kept})};
}

Pair searched_scale(const Tensor& data, const Tensor& least, const Tensor& most, const Tensor& cumsum,
                    const ScaleSearch& s) {
  const char* const op = "npu_ifmr";
  for (const auto& [name, t] : {std::pair{"data_min", &least}, {"data_max", &most}}) need_sizes(op, name, *t, {1});
  need_dims(op, "cumsum", cumsum, {1});
  TORCH_CHECK_VALUE(s.step > 0 && s.end > s.begin, op, ": search from ", s.begin, " to ", s.end, " by ", s.step);
  const Tensor x = wide(data.detach()), low = wide(least), high = wide(most);
  const double bins = static_cast<double>(known(cumsum, 0));
  const Tensor part = cumsum.to(x.scalar_type()) / at::Scalar(data.sym_numel());
  const auto edge = [&](double at) { return part.lt(at).sum() / bins * (high - low) + low; };
  Tensor top = edge(s.high_part), bottom = edge(1 - s.low_part);
  if (s.offset) {
    top = top.clamp_min(0);
    bottom = bottom.clamp_max(0);
  } else {
    top = at::maximum(top.abs(), bottom.abs());
  }
  const auto steps = static_cast<int64_t>(std::ceil((s.end - s.begin) / s.step - 1e-6));
  const Tensor tried = (at::arange(steps, x.options()) * s.step + s.begin) * top;
  Tensor scale = s.offset ? (tried - bottom) / 255 : tried / 127;
  if (s.offset) scale = at::where(scale.lt(1.192092896e-07), 1, scale);
  const Tensor offset = s.offset ? -((bottom / scale).round() + 128) : at::zeros_like(scale);
  std::vector<Tensor> loss;
  for (int64_t i = 0; i < steps; ++i) {
    const Tensor whole = ((x / scale[i]).round() + offset[i]).clamp(-128, 127);
    const Tensor off = (whole - offset[i]) * scale[i] - x;
    loss.push_back((off * off).sum());
  }
  const Tensor best = at::stack(loss).argmin(0, true);
  return {scale.index_select(0, best), offset.index_select(0, best)};
}

}  // namespace npu::ops
