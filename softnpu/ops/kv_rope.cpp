// Operators that norm, rotate and quantize rows and write them into caches. Arithmetic is fp32 and rounded once.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include "softnpu/ops/in_halves.h"
#include "softnpu/ops/kv_cache.h"
#include "softnpu/ops/rounded.h"
#include "softnpu/ops/rows_within.h"

namespace softnpu::ops::kernels {
namespace {

Tensor normed(const Tensor& x, const Tensor& gamma, double eps) {
  return x * x.square().mean(-1, true).add_(eps).rsqrt_() * wide(gamma);
}
Tensor turned(const Tensor& x) {
  const auto parts = in_halves(x, -1);
  return at::cat({-parts[1], parts[0]}, -1);
}
Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin) { return x * cos + turned(x) * sin; }
// Neighbours become halves, as the rotation of a latent key has them.
Tensor halves(const Tensor& x) { return x.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2); }

// As the cache stores it: rounded where it has 8 bits.
Tensor stored(const Tensor& value, const Tensor& cache) {
  Tensor out = at::empty(value.sizes(), cache.options());
  if (at::isIntegralType(cache.scalar_type(), false) || is_hifloat8(cache)) {
    put_rounded(out, value);
  } else {
    put(out, value);
  }
  return out;
}
Tensor multiplied(const Tensor& value, const CacheScale& s) {
  const Tensor scaled = given(s.scale) ? value * wide(*s.scale) : value;
  return given(s.offset) ? scaled + wide(*s.offset) : scaled;
}
Tensor divided(const Tensor& value, const CacheScale& s) {
  const Tensor scaled = given(s.scale) ? value / wide(*s.scale) : value;
  return given(s.offset) ? scaled + wide(*s.offset) : scaled;
}

// values [batch, heads, rows, columns] into a cache, by the mode's meaning of index. A negative place is skipped.
void write(const Tensor& values, const Tensor& index, std::string_view mode, Tensor& cache) {
  if (!cache.defined() || cache.numel() == 0) return;
  if (is_hifloat8(cache)) {
    Tensor bytes = moved_bits(cache);
    return write(moved_bits(values), index, mode, bytes);
  }
  const int64_t batch = values.size(0), heads = values.size(1), rows = values.size(2), columns = values.size(3);
  const Tensor at = index.to(at::kLong).contiguous();
  if (mode.empty() || mode == "Norm") {
    TORCH_CHECK(at.numel() == batch * rows && cache.dim() == 4, "aclnnKvRmsNormRopeCache: an index of ", index.sizes(),
                " for ", batch, " sequences of ", rows);
    for (int64_t b = 0; b < batch; b++) {
      const Tensor places = at.reshape({batch, rows})[b], kept = places.ge(0).nonzero().squeeze(1);
      Tensor of_batch = cache[b];
      of_batch.index_copy_(1, places.index_select(0, kept), values[b].index_select(1, kept));
    }
    return;
  }
  TORCH_CHECK(cache.dim() == 4 && cache.size(1) > 0 && cache.size(2) == heads && cache.size(3) == columns,
              "aclnnKvRmsNormRopeCache: a cache of ", cache.sizes(), " for ", heads, " heads of ", columns, " columns");
  const bool blocks = mode == "PA_BLK_BNSD" || mode == "PA_BLK_NZ", parts = mode == "PA_NZ" || mode == "PA_BLK_NZ";
  TORCH_CHECK_NOT_IMPLEMENTED(blocks || parts || mode == "PA" || mode == "PA_BNSD",
                              "aclnnKvRmsNormRopeCache: the mode ", std::string(mode),
                              " is not one of Norm, PA, PA_BNSD, PA_NZ, PA_BLK_BNSD, PA_BLK_NZ");
  const int64_t block = cache.size(1);
  Tensor slot = at;
  const int64_t each = (rows + block - 1) / block, needed = batch * (blocks ? each : rows);
  TORCH_CHECK(at.numel() == needed, "aclnnKvRmsNormRopeCache: an index of ", index.sizes(), " where ", needed,
              " places are expected for ", batch, " sequences of ", rows, " rows");
  if (blocks) {
    const Tensor row = at::arange(rows, at.options());
    const Tensor start = at.reshape({batch, each}).index_select(1, row.floor_divide(block));
    slot = at::where(start.lt(0), start, start + row.remainder(block));
  }
  slot = slot.flatten();
  const Tensor kept = slot.ge(0).nonzero().squeeze(1), place = slot.index_select(0, kept);
  TORCH_CHECK(place.numel() == 0 || place.max().item<int64_t>() < cache.size(0) * block,
              "aclnnKvRmsNormRopeCache: a place is beyond the ", cache.size(0), " blocks of ", block, " rows");
  Tensor flat = values.transpose(1, 2).reshape({batch * rows, heads, columns}).index_select(0, kept);
  Tensor view = cache;
  if (parts) {
    const int64_t part = at::isIntegralType(cache.scalar_type(), false) ? 32 : 16;
    TORCH_CHECK(heads * columns % part == 0, "aclnnKvRmsNormRopeCache: ", columns, " columns are not parts of ", part);
    view = cache.view({cache.size(0), heads * columns / part, block, part}).permute({0, 2, 1, 3});
    flat = flat.reshape({-1, heads * columns / part, part});
  }
  view.index_put_({place.floor_divide(block), place.remainder(block)}, flat);
}

}  // namespace

void kv_norm_rope(const Tensor& kv, const OptionalTensor& v, const NormedRope& o, const CacheScale& of_k,
                  const CacheScale& of_v, Tensor& k_cache, Tensor& v_cache, Tensor& k_out, Tensor& v_out) {
  const int64_t normal = o.gamma.size(0), turning = o.cos.size(-1);
  const Tensor x = wide(kv), cos = wide(o.cos), sin = wide(o.sin);
  const Tensor norm = normed(x.narrow(-1, 0, normal), o.gamma, o.eps);
  Tensor key, value;
  if (given(v)) {  // the key is normed, its first columns are rotated
    key = at::cat({rotated(halves(norm.narrow(-1, 0, turning)), cos, sin), norm.narrow(-1, turning, normal - turning)},
                  -1);
    value = wide(*v);
  } else {
    key = rotated(halves(x.narrow(-1, normal, x.size(-1) - normal)), cos, sin);
    value = norm;
  }
  write(stored(multiplied(key, of_k), k_cache), o.index, o.mode, k_cache);
  write(stored(multiplied(value, of_v), v_cache), o.index, o.mode, v_cache);
  put_if_fits(k_out, key);
  put_if_fits(v_out, value);
}

void rope_into_cache(const Tensor& x, const Dequant& dequant, const RopeCache& o, const CacheScale& of_k,
                     const CacheScale& of_v, Tensor& k_cache, Tensor& v_cache, Tensor& q, Tensor& k, Tensor& v) {
  Tensor value = wide(x);
  if (given(dequant.bias) && dequant.bias->scalar_type() == at::kInt) value = value + wide(*dequant.bias);
  if (given(dequant.weight_scale)) value = value * wide(*dequant.weight_scale);
  if (given(dequant.row_scale)) {
    std::vector<int64_t> shape(x.sizes().begin(), x.sizes().end());
    shape.back() = 1;
    value = value * wide(*dequant.row_scale).reshape(shape);
  }
  if (given(dequant.bias) && dequant.bias->scalar_type() != at::kInt) value = value + wide(*dequant.bias);
  need_length(o.splits.size(), 3, "aclnnDequantRopeQuantKvcache: sizeSplits");
  const int64_t d = o.cos.size(-1);
  TORCH_CHECK(d > 0, "aclnnDequantRopeQuantKvcache: a cosine without columns");
  const auto parts = value.split_with_sizes(o.splits, -1);
  const auto heads = [&](const Tensor& t) { return t.unflatten(-1, {t.size(-1) / d, d}); };
  // [B, D] of one token a sequence lacks the dimension of heads.
  const auto angle = [&](const Tensor& t) { return wide(t.dim() == x.dim() ? t.unsqueeze(-2) : t); };
  const Tensor cos = angle(o.cos), sin = angle(o.sin);
  const Tensor query = rotated(heads(parts[0]), cos, sin), key = rotated(heads(parts[1]), cos, sin);
  const Tensor last = heads(parts[2]);
  put(q, query);
  put_if_fits(k, key);
  put_if_fits(v, last);
  const Tensor at = o.indices.flatten().to(at::kLong);
  const auto into = [&](Tensor& cache, const Tensor& rows) {
    const Tensor flat = rows.reshape({-1, rows.size(-2), rows.size(-1)});
    const int64_t needed = o.paged ? flat.size(0) : x.size(0);
    TORCH_CHECK(at.numel() == needed && cache.dim() == 4, "aclnnDequantRopeQuantKvcache: indices of ",
                o.indices.sizes(), " where ", needed, " are expected, into a cache of ", cache.sizes());
    if (o.paged) {
      const int64_t block = cache.size(1), places = cache.size(0) * block;
      TORCH_CHECK(needed == 0 || (at.min().item<int64_t>() >= 0 && at.max().item<int64_t>() < places),
                  "aclnnDequantRopeQuantKvcache: an index is not one of the ", places, " rows of the cache");
      if (needed > 0) cache.index_put_({at.floor_divide(block), at.remainder(block)}, flat);
      return;
    }
    const int64_t batch = needed, each = batch ? flat.size(0) / batch : 0;
    TORCH_CHECK(batch <= cache.size(0), "aclnnDequantRopeQuantKvcache: ", batch, " sequences into a cache of ",
                cache.size(0));
    for (int64_t b = 0; b < batch; b++) {
      const int64_t start = at[b].item<int64_t>();
      check_rows_within(start, each, 1, cache.size(1));
      cache[b].narrow(0, start, each).copy_(flat.narrow(0, b * each, each));
    }
  };
  into(k_cache, stored(multiplied(key, of_k), k_cache));
  into(v_cache, stored(multiplied(last, of_v), v_cache));
}

void qkv_norm_rope(const Tensor& qkv, const QkvRows& o, const CacheScale& of_k, const CacheScale& of_v,
                   const QkvOut& out) {
  need_length(o.heads.size(), 3, "aclnnQkvRmsNormRopeCache: headNums");
  const int64_t d = o.q_gamma.size(0), turning = o.cos.size(-1), rows = qkv.size(0);
  TORCH_CHECK(o.cos.dim() == 2 && o.cos.size(0) == rows && turning <= d && o.sin.sizes() == o.cos.sizes(),
              "aclnnQkvRmsNormRopeCache: cos and sin must be [", rows, ", up to ", d, "], got ", o.cos.sizes(), " and ",
              o.sin.sizes());
  const auto parts = wide(qkv).reshape({rows, -1, d}).split_with_sizes(o.heads, 1);
  const Tensor cos = wide(o.cos).unsqueeze(1), sin = wide(o.sin).unsqueeze(1);
  const auto turn = [&](const Tensor& x) {
    return turning == d
               ? rotated(x, cos, sin)
               : at::cat({rotated(x.narrow(-1, 0, turning), cos, sin), x.narrow(-1, turning, d - turning)}, -1);
  };
  const Tensor q = turn(normed(parts[0], o.q_gamma, o.eps)), k = turn(normed(parts[1], o.k_gamma, o.eps));
  put(out.q, q.reshape(out.q.sizes()));
  put_if_fits(out.q_plain, q);
  put_if_fits(out.k_plain, k);
  put_if_fits(out.v_plain, parts[2]);
  cache_write(stored(divided(k, of_k), out.k_cache), o.index, o.mode, out.k_cache);
  cache_write(stored(divided(parts[2], of_v), out.v_cache), o.index, o.mode, out.v_cache);
}

void rope_by_position(const Tensor& positions, const Tensor& x, const RopeTable& table, Tensor& out) {
  const auto& [rows_of_table, sections, columns, neox, interleaved] = table;
  const auto angles = in_halves(wide(rows_of_table.index_select(0, positions.flatten().to(at::kLong))), -1);
  TORCH_CHECK(columns > 0, "aclnnRopeWithSinCosCache: heads of ", columns, " columns");
  const int64_t half = angles[0].size(-1), tokens = positions.size(-1);
  const bool sectioned = positions.dim() == 2;
  const auto chosen = [&](const Tensor& t) {
    if (!sectioned) return t;
    TORCH_CHECK(sections.size() == size_t(positions.size(0)), "aclnnRopeWithSinCosCache: ", positions.size(0),
                " rows of positions and ", sections.size(), " sections");
    const Tensor rows = t.reshape({positions.size(0), tokens, half});
    if (interleaved) {
      Tensor mixed = rows[0].clone();
      for (int64_t i = 1; i < rows.size(0); i++) {
        for (int64_t c = i; c < sections[i] * 3 && c < half; c += 3) mixed.select(1, c).copy_(rows[i].select(1, c));
      }
      return mixed;
    }
    std::vector<Tensor> parts;
    const auto split = rows.split_with_sizes(sections, -1);
    for (size_t i = 0; i < split.size(); i++) parts.push_back(split[i][i]);
    return at::cat(parts, -1);
  };
  const Tensor cos = chosen(angles[0]).unsqueeze(1), sin = chosen(angles[1]).unsqueeze(1);
  const Tensor heads = wide(x).reshape({tokens, -1, columns}), turning = heads.narrow(-1, 0, 2 * half);
  const Tensor a = neox ? turning.narrow(-1, 0, half) : turning.unflatten(-1, {half, 2}).select(-1, 0);
  const Tensor b = neox ? turning.narrow(-1, half, half) : turning.unflatten(-1, {half, 2}).select(-1, 1);
  const Tensor first = a * cos - b * sin, second = b * cos + a * sin;
  const Tensor turned = neox ? at::cat({first, second}, -1) : at::stack({first, second}, -1).flatten(-2);
  put(out, at::cat({turned, heads.narrow(-1, 2 * half, columns - 2 * half)}, -1).reshape(out.sizes()));
}

}  // namespace softnpu::ops::kernels
