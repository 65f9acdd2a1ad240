// See mla.h.
#include <ATen/TensorIndexing.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/mla.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

std::string_view mode_of(const MlaCaches& c) { return c.mode.empty() ? "PA_BSND" : c.mode; }
bool paged(std::string_view mode) { return mode.starts_with("PA"); }
bool by_block(std::string_view mode) { return mode.starts_with("PA_BLK"); }

Tensor bytes_of(const Tensor& t) { return t.element_size() == 1 ? t.view(at::kChar) : t; }

at::ScalarType small_type(const MlaRows& r, const MlaForm& f) { return f.weights == 1 ? at::kChar : r.x.scalar_type(); }

// The place of each token: a row of the cache's blocks.
Tensor places(const MlaRows& r, const MlaCaches& c) {
  if (!by_block(mode_of(c))) return r.index->flatten();
  const int64_t size = c.kv.size(1);
  if (r.x.dim() == 3) {
    const Tensor step = at::arange(r.x.size(1), r.index->options());
    return (r.index->index_select(1, step.div(size, "floor")) * size + step.remainder(size)).flatten();
  }
  const Tensor ends = r.ends->to(at::kLong), begins = ends.roll(1).index_fill(0, ends.new_zeros({1}), 0);
  const Tensor token = at::arange(r.x.size(0), ends.options());
  const Tensor sequence = at::searchsorted(ends, token, /*out_int32=*/false, /*right=*/true);
  const Tensor blocks = (ends - begins + (size - 1)).div(size, "floor"), before = blocks.cumsum(0) - blocks;
  const Tensor step = token - begins.index_select(0, sequence);
  const Tensor block = before.index_select(0, sequence) + step.div(size, "floor");
  return r.index->index_select(0, block) * size + step.remainder(size);
}

void write(const char* name, const Tensor& cache, std::string_view mode, const Tensor& place, const Tensor& values) {
  TORCH_CHECK(values.scalar_type() == cache.scalar_type(), name, " is ", cache.scalar_type(), ", and what is stored ",
              values.scalar_type());
  const Tensor rows = bytes_of(values);
  Tensor to = bytes_of(cache);
  const int64_t columns = rows.size(1);
  if (!paged(mode)) {
    to.copy_(rows.view(cache.sizes()));
    return;
  }
  if (cache.numel() == 0) return;
  const int64_t blocks = cache.size(0), size = cache.size(1);
  if (mode == "PA_BSND" || mode == "PA_BLK_BSND") {
    to.view({blocks * size, columns}).index_copy_(0, place, rows);
    return;
  }
  const int64_t part = cache.element_size() == 1 ? 32 : 16;
  const Tensor in_block = place.remainder(size), block = place.div(size, "floor");
  to.view({blocks, columns / part, size, part})
      .index_put_({block, at::indexing::Slice(), in_block}, rows.view({rows.size(0), columns / part, part}));
}

// The numbers of a row, its rotated columns and a scale for each tile of the numbers, byte by byte.
Tensor merged(const Tensor& key, const Tensor& rope, at::ScalarType type, at::ScalarType plain, int64_t tile) {
  const auto [values, scale] = by_row(key.unflatten(-1, {-1, tile}), type);
  const auto bytes = [](const Tensor& t) { return t.contiguous().view(at::kChar); };
  const Tensor row = at::cat({bytes(values).flatten(-2), bytes(rope.to(plain)), bytes(scale.squeeze(-1))}, -1);
  return row.view(type);
}

void check_index(const MlaRows& r, const MlaCaches& c, std::string_view mode) {
  const bool packed = r.x.dim() == 2;
  if (!paged(mode)) {
    TORCH_CHECK((mode == "TND") == packed, "cacheMode \"", mode, "\" is not of tokenX with ", r.x.dim(), " dimensions");
    TORCH_CHECK(!given(r.index) && !given(r.ends), "cacheMode \"", mode,
                "\" writes the whole cache; leave out cacheIndex and actualSeqLen");
    return;
  }
  if (r.x.numel() == 0) return;
  TORCH_CHECK(given(r.index), "cacheIndex is needed with cacheMode \"", mode, "\"");
  TORCH_CHECK(given(r.ends) == (by_block(mode) && packed),
              "actualSeqLen is of packed tokens with cacheMode \"PA_BLK_BSND\" or \"PA_BLK_NZ\"");
  if (!by_block(mode)) {
    need_sizes("cacheIndex", r.index, r.x.sizes().slice(0, r.x.dim() - 1));
  } else if (packed) {
    need_dims("cacheIndex", *r.index, {1});
    need_dims("actualSeqLen", *r.ends, {1});
  } else {
    const int64_t size = std::max<int64_t>(c.kv.size(1), 1);
    need_sizes("cacheIndex", r.index, {r.x.size(0), (r.x.size(1) + size - 1) / size});
  }
}

}  // namespace

void check_mla_caches(const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaForm& f) {
  const std::string_view mode = mode_of(c);
  need_word("cacheMode", mode, {"PA_BSND", "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ", "BSND", "TND"});
  int64_t width = w.uk.size(2);
  const int64_t turns = r.cos.size(-1);
  if (f.cache == 3) {
    TORCH_CHECK(f.tile > 0 && width % f.tile == 0, "tileSize is ", f.tile, ", of ", width, " columns");
    width += turns * static_cast<int64_t>(r.cos.element_size()) + width / f.tile * 4;
  }
  std::vector<int64_t> kv{-1, -1, 1, width};
  if (!paged(mode)) {
    kv.assign(r.x.sizes().begin(), r.x.sizes().end() - 1);
    kv.insert(kv.end(), {1, width});
  }
  need_dims("kvCache", c.kv, {static_cast<int64_t>(kv.size())});
  need_sizes("kvCache", c.kv, kv);
  check_index(r, c, mode);
  TORCH_CHECK(c.kv.is_contiguous(), "kvCache must be contiguous, for it is written by blocks");
  const auto need_parts = [&](const char* name, const Tensor& cache) {
    const int64_t part = cache.element_size() == 1 ? 32 : 16;
    TORCH_CHECK(!mode.ends_with("NZ") || cache.size(-1) % part == 0, name, " has ", cache.size(-1),
                " columns; cacheMode \"", mode, "\" has them in parts of ", part);
  };
  need_parts("kvCache", c.kv);
  const auto plain = r.cos.scalar_type(), small = small_type(r, f);
  TORCH_CHECK(c.kv.scalar_type() == (f.cache ? small : plain), "kvCache is ", c.kv.scalar_type(), ", not ",
              f.cache ? small : plain);
  if (f.cache == 3) return;
  std::vector<int64_t> kr = c.kv.sizes().vec();
  kr.back() = turns;
  need_sizes("krCache", c.kr, kr);
  TORCH_CHECK(c.kr.is_contiguous(), "krCache must be contiguous, for it is written by blocks");
  need_parts("krCache", c.kr);
  TORCH_CHECK(c.kr.scalar_type() == (f.cache == 2 ? at::kChar : plain), "krCache is ", c.kr.scalar_type(), ", not ",
              f.cache == 2 ? at::kChar : plain);
}

void put_latent(const MlaRows& r, const MlaCaches& c, const MlaScales& s, const MlaForm& f, const Tensor& key,
                const Tensor& rope) {
  const std::string_view mode = mode_of(c);
  const auto plain = r.cos.scalar_type(), small = small_type(r, f);
  const Tensor place = paged(mode) ? places(r, c) : Tensor();
  if (f.cache == 3) {
    write("kvCache", c.kv, mode, place, merged(key, rope, small, plain, f.tile));
    return;
  }
  Tensor stored = key.to(plain), turned = rope.to(plain);
  if (f.cache) {
    const Tensor scaled = key * (f.cache == 1 ? s.ckv->flatten().narrow(0, 0, 1) : s.ckv->flatten());
    stored = as_small(scaled, small);
    if (f.cache == 2) turned = as_small(rope * *s.ckr, at::kChar);
  }
  write("kvCache", c.kv, mode, place, stored);
  write("krCache", c.kr, mode, place, turned);
}

}  // namespace softnpu::ops::kernels
