// Caches of keys and values: sizes and checks, see sizes.h.
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

Sizes normed_key(const at::Tensor& kv, const at::Tensor& cos, const OptionalTensor& v) {
  return with_size(kv, -1, given(v) ? kv.sym_size(-1) : cos.sym_size(-1));
}
Sizes normed_value(const at::Tensor& kv, const at::Tensor& gamma, const OptionalTensor& v) {
  return with_size(kv, -1, given(v) ? v->sym_size(-1) : gamma.sym_size(0));
}

Sizes rope_heads(const at::Tensor& x, const at::Tensor& cos, at::IntArrayRef splits, int64_t part) {
  Sizes sizes = with_size(x, -1, splits[part] / cos.sym_size(-1));
  sizes.push_back(cos.sym_size(-1));
  return sizes;
}

void check_cache_rows(const char* op, const at::Tensor& key, const at::Tensor& value, const at::Tensor& slots,
                      const OptionalTensor& lengths, const OptionalTensor& offsets) {
  refuse_given(op, "compress_lens", lengths);
  refuse_given(op, "compress_seq_offsets", offsets);
  TORCH_CHECK(key.dim() == 3 && value.dim() == 3, op, ": key and value have three dimensions, not ", key.dim(), " and ",
              value.dim());
  TORCH_CHECK(slots.dim() == 1 && key.sym_size(0) == slots.sym_size(0) && value.sym_size(0) == slots.sym_size(0), op,
              ": ", key.sym_size(0), " keys, ", value.sym_size(0), " values, slot_mapping of ", slots.sym_sizes());
}

void check_positions(const at::Tensor& positions, const at::Tensor& query, at::OptionalIntArrayRef sections,
                     std::string_view rotary, std::string_view cache) {
  check_word("npu_mrope", "rotary_mode", rotary, {"half", "interleaved", "interleave"});
  check_word("npu_mrope", "cache_mode", cache, {"default", "interleave"});
  TORCH_CHECK(positions.dim() == 1 || positions.dim() == 2, "npu_mrope: positions have one or two dimensions, not ",
              positions.dim());
  TORCH_CHECK(query.dim() == 2, "npu_mrope: query has two dimensions, not ", query.dim());
  TORCH_CHECK(positions.dim() == 1 || (sections && int64_t(sections->size()) == positions.size(0)),
              "npu_mrope: positions of two dimensions need a section of mrope_section for each row");
}

void check_qkv_cache(const char* op, const at::Tensor& qkv, const at::Tensor& gamma, at::IntArrayRef sizes,
                     at::IntArrayRef heads, std::string_view mode, bool outputs) {
  check_word(op, "cache_mode", mode, {"Norm", "PA_NZ"});
  TORCH_CHECK_NOT_IMPLEMENTED(!outputs, op, ": is_output_qkv is not implemented");
  TORCH_CHECK(sizes.size() == 4 && heads.size() == 3, op, ": qkv_size has four members and head_nums three, not ",
              sizes.size(), " and ", heads.size());
  TORCH_CHECK(
      qkv.dim() == 2 && gamma.dim() == 1 && qkv.sym_size(1) == gamma.sym_size(0) * (heads[0] + heads[1] + heads[2]), op,
      ": qkv of ", qkv.sym_sizes(), " has not as many columns as its heads of ", gamma.sym_sizes());
}

void check_rope_cache(const char* op, const at::Tensor& x, const at::Tensor& cos, at::IntArrayRef splits,
                      int64_t quant_mode, std::string_view layout, std::string_view cache_mode) {
  check_number(op, "quant_mode", quant_mode, {0});
  check_word(op, "input_layout", layout, {"BSND"});
  check_word(op, "cache_mode", cache_mode, {"contiguous", "page"});
  TORCH_CHECK(splits.size() == 3, op, ": size_splits has three members, not ", splits.size());
  TORCH_CHECK(x.dim() >= 2 && cos.dim() >= 1, op, ": x has ", x.dim(), " dimensions");
  TORCH_CHECK(cos.sym_size(-1) > 0, op, ": cos has no columns: they are the size of a head");
  TORCH_CHECK(x.sym_size(-1) == splits[0] + splits[1] + splits[2], op, ": ", x.sym_size(-1),
              " columns are not the sum of size_splits");
}

}  // namespace npu::ops
