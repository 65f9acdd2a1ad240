// See mla_cache.h.
#include "csrc/ops/npu/mla_cache.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>

#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"
#include "csrc/ops/npu/wide.h"

namespace npu::ops {
namespace {

using at::Tensor;

Tensor bytes_of(const Tensor& t) { return t.element_size() == 1 ? t.view(at::kChar) : t; }

Tensor as_int8(const Tensor& x) { return x.round().clamp(-128, 127).to(at::kChar); }

// The place of each token: a row of the cache's blocks.
Tensor places(const char* op, const MlaRows& r, const MlaCaches& c) {
  TORCH_CHECK_VALUE(given(r.index), op, ": cache_index is needed with cache_mode \"", c.mode, "\"");
  need_type(op, "cache_index", r.index, {at::kLong});
  const bool by_block = c.mode.substr(0, 6) == "PA_BLK", packed = r.x.dim() == 2;
  TORCH_CHECK_VALUE(given(r.ends) == (by_block && packed), op,
                    ": actual_seq_len is of packed tokens with cache_mode \"PA_BLK_BSND\" or \"PA_BLK_NZ\"");
  const auto size = c.kv.sym_size(1);
  if (!by_block) {
    Sizes sizes = sizes_of(r.x);
    sizes.pop_back();
    need_sizes(op, "cache_index", r.index, sizes);
    return r.index->flatten();
  }
  const int64_t rows = size.guard_int(__FILE__, __LINE__);
  if (!packed) {
    const auto length = r.x.sym_size(1);
    need_sizes(op, "cache_index", r.index, {r.x.sym_size(0), (length + size - 1) / size});
    const Tensor step = at::arange(length.guard_int(__FILE__, __LINE__), r.index->options());
    return (r.index->index_select(1, step.div(rows, "floor")) * rows + step.remainder(rows)).flatten();
  }
  need_dims(op, "cache_index", r.index.value(), {1});
  need_dims(op, "actual_seq_len", r.ends.value(), {1});
  const Tensor ends = r.ends->to(at::kLong), begins = ends.roll(1).index_fill(0, ends.new_zeros({1}), 0);
  const Tensor token = at::arange(r.x.sym_size(0).guard_int(__FILE__, __LINE__), ends.options());
  const Tensor sequence = at::searchsorted(ends, token, /*out_int32=*/false, /*right=*/true);
  const Tensor blocks = (ends - begins + (rows - 1)).div(rows, "floor"), before = blocks.cumsum(0) - blocks;
  const Tensor step = token - begins.index_select(0, sequence);
  const Tensor block = before.index_select(0, sequence) + step.div(rows, "floor");
  return r.index->index_select(0, block) * rows + step.remainder(rows);
}

void put(const char* op, const char* name, const Tensor& cache, std::string_view mode, const Tensor& place,
         const Tensor& values) {
  need_same_type(op, name, cache, "what is stored", values);
  TORCH_CHECK_VALUE(cache.is_contiguous(), op, ": ", name, " must be contiguous, for it is written by blocks");
  Tensor rows = bytes_of(values), to = bytes_of(cache);
  const auto columns = rows.sym_size(1);
  if (mode == "BSND" || mode == "TND") {
    to.copy_(rows.view_symint(cache.sym_sizes()));
    return;
  }
  if (cache.sym_numel() == 0) return;
  const auto blocks = cache.sym_size(0), size = cache.sym_size(1);
  if (mode == "PA_BSND" || mode == "PA_BLK_BSND") {
    to.view_symint({blocks * size, columns}).index_copy_(0, place, rows);
    return;
  }
  const int64_t part = cache.element_size() == 1 ? 32 : 16;
  TORCH_CHECK_VALUE(columns % part == 0, op, ": ", name, " has ", columns, " columns; cache_mode \"", mode,
                    "\" has them in parts of ", part);
  const Tensor in_block = place.remainder(at::Scalar(size)), block = place.div(at::Scalar(size), "floor");
  to.view_symint({blocks, columns / part, size, part})
      .index_put_({block, at::indexing::Slice(), in_block}, rows.view_symint({rows.sym_size(0), columns / part, part}));
}

// The numbers of a row, its rotated columns and a scale for each tile of the numbers, byte by byte.
Tensor merged(const Tensor& key, const Tensor& rope, at::ScalarType type, at::ScalarType plain, int64_t tile) {
  const Tensor tiles = key.unflatten(-1, {-1, tile});
  const bool whole = type == at::kChar;
  const Tensor scale = tiles.abs().amax(-1, /*keepdim=*/true) / (whole ? 127.0 : 448.0);
  const Tensor share = tiles / at::where(scale.gt(0), scale, 1);
  const Tensor values = (whole ? as_int8(share) : share.to(type)).flatten(-2);
  const auto bytes = [](const Tensor& t) { return t.contiguous().view(at::kChar); };
  return at::cat({bytes(values), bytes(rope.to(plain)), bytes(scale.squeeze(-1).to(at::kFloat))}, -1).view(type);
}

}  // namespace

void put_latent(const char* op, const MlaRows& r, const MlaCaches& c, const MlaScales& s, const MlaModes& m,
                const Tensor& key, const Tensor& rope) {
  check_word(op, "cache_mode", c.mode, {"PA_BSND", "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ", "BSND", "TND"});
  const auto plain = r.cos.scalar_type(), small = m.weights == 1 ? at::kChar : r.x.scalar_type();
  auto width = key.sym_size(1);
  if (m.cache == 3) {
    TORCH_CHECK_VALUE(m.tile > 0 && width % m.tile == 0, op, ": tile_size is ", m.tile, ", of ", width, " columns");
    width = width + rope.sym_size(1) * static_cast<int64_t>(r.cos.element_size()) + width / m.tile * 4;
  }
  Sizes kv{-1, -1, 1, width};
  if (c.mode == "BSND" || c.mode == "TND") {
    TORCH_CHECK_VALUE((c.mode == "TND") == (r.x.dim() == 2), op, ": cache_mode \"", c.mode,
                      "\" is not of token_x with ", r.x.dim(), " dimensions");
    TORCH_CHECK_VALUE(!given(r.index) && !given(r.ends), op, ": cache_mode \"", c.mode,
                      "\" writes the whole cache; leave out cache_index and actual_seq_len");
    kv = sizes_of(r.x);
    kv.back() = 1;
    kv.push_back(width);
  }
  need_sizes(op, "kv_cache", c.kv, kv);
  const bool paged = c.mode.substr(0, 2) == "PA";
  const Tensor place = paged ? places(op, r, c) : Tensor();
  if (m.cache == 3) {
    put(op, "kv_cache", c.kv, c.mode, place, merged(key, rope, small, plain, m.tile));
    return;
  }
  Sizes kr = sizes_of(c.kv);
  kr.back() = rope.sym_size(1);
  need_sizes(op, "kr_cache", c.kr, kr);
  Tensor stored = key.to(plain), turned = rope.to(plain);
  if (m.cache) {
    const Tensor scaled = key * (m.cache == 1 ? s.ckv->flatten().narrow(0, 0, 1) : s.ckv->flatten());
    stored = small == at::kChar ? as_int8(scaled) : scaled.to(small);
    if (m.cache == 2) turned = as_int8(rope * *s.ckr);
  }
  put(op, "kv_cache", c.kv, c.mode, place, stored);
  put(op, "kr_cache", c.kr, c.mode, place, turned);
}

}  // namespace npu::ops
