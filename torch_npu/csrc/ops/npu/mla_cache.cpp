// See mla_cache.h.
#include "csrc/ops/npu/mla_cache.h"

#include "csrc/ops/npu/hifloat8.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

using at::Tensor;

void check_index(const char* op, const MlaRows& r, const MlaCaches& c) {
  TORCH_CHECK_VALUE(given(r.index), op, ": cache_index is needed with cache_mode \"", c.mode, "\"");
  need_type(op, "cache_index", r.index, {at::kLong});
  const bool by_block = c.mode.substr(0, 6) == "PA_BLK", packed = r.x.dim() == 2;
  TORCH_CHECK_VALUE(given(r.ends) == (by_block && packed), op,
                    ": actual_seq_len is of packed tokens with cache_mode \"PA_BLK_BSND\" or \"PA_BLK_NZ\"");
  if (!by_block) {
    Sizes sizes = sizes_of(r.x);
    sizes.pop_back();
    need_sizes(op, "cache_index", r.index, sizes);
  } else if (packed) {
    need_dims(op, "cache_index", r.index.value(), {1});
    need_dims(op, "actual_seq_len", r.ends.value(), {1});
  } else {
    const auto size = c.kv.sym_size(1);
    need_sizes(op, "cache_index", r.index, {r.x.sym_size(0), (r.x.sym_size(1) + size - 1) / size});
  }
}

void check_cache(const char* op, const char* name, const Tensor& cache, std::string_view mode, at::ScalarType stored) {
  if (stored == kHifloat8Codes) need_name(op, name, cache);
  need_type(op, name, cache, {stored});
  TORCH_CHECK_VALUE(cache.is_contiguous(), op, ": ", name, " must be contiguous, for it is written by blocks");
  const int64_t part = cache.element_size() == 1 ? 32 : 16;
  const bool parts = mode == "PA_NZ" || mode == "PA_BLK_NZ";
  TORCH_CHECK_VALUE(!parts || cache.sym_size(-1) % part == 0, op, ": ", name, " has ", cache.sym_size(-1),
                    " columns; cache_mode \"", mode, "\" has them in parts of ", part);
}

}  // namespace

void check_latent(const char* op, const MlaRows& r, const MlaWeights& w, const MlaCaches& c, const MlaScales& s,
                  const MlaModes& m) {
  check_word(op, "cache_mode", c.mode, {"PA_BSND", "PA_NZ", "PA_BLK_BSND", "PA_BLK_NZ", "BSND", "TND"});
  const auto plain = r.cos.scalar_type(), small = m.weights == 1 ? at::kChar : r.x.scalar_type();
  auto width = w.uk.sym_size(2);
  const auto turns = r.cos.sym_size(-1);
  if (m.cache == 3) {
    TORCH_CHECK_VALUE(m.tile > 0 && width % m.tile == 0, op, ": tile_size is ", m.tile, ", of ", width, " columns");
    width = width + turns * static_cast<int64_t>(r.cos.element_size()) + width / m.tile * 4;
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
  if (c.mode.substr(0, 2) == "PA") check_index(op, r, c);
  check_cache(op, "kv_cache", c.kv, c.mode, m.cache ? small : plain);
  if (m.cache == 3) return;
  Sizes kr = sizes_of(c.kv);
  kr.back() = turns;
  need_sizes(op, "kr_cache", c.kr, kr);
  check_cache(op, "kr_cache", c.kr, c.mode, m.cache == 2 ? at::kChar : plain);
}

}  // namespace npu::ops
