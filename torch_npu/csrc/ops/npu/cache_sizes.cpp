// Caches of keys and values: sizes and checks, see sizes.h.
#include "csrc/ops/aclnn_call.h"
#include "csrc/ops/npu/params.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

namespace {

// Parts of columns that a cache in the layout NZ has.
int64_t part_of(const at::Tensor& cache) { return cache.element_size() == 1 ? 32 : 16; }

void need_axis(const char* op, const at::Tensor& data, int64_t axis) {
  TORCH_CHECK(axis >= -data.dim() && axis < data.dim(), op, ": axis is ", axis, " of ", data.dim(), " dimensions");
}

}  // namespace

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
  need_integers(op, "slot_mapping", slots);
  TORCH_CHECK(slots.dim() == 1 && key.sym_size(0) == slots.sym_size(0) && value.sym_size(0) == slots.sym_size(0), op,
              ": ", key.sym_size(0), " keys, ", value.sym_size(0), " values, slot_mapping of ", slots.sym_sizes());
}

void check_cache(const char* op, const char* name, const at::Tensor& key, const at::Tensor& cache,
                 std::string_view mode) {
  need_same_type(op, "the rows", key, name, cache);
  if (mode != "PA_NZ") return need_sizes(op, name, cache, {-1, -1, key.sym_size(1), key.sym_size(2)});
  need_dims(op, name, cache, {4});
  TORCH_SYM_CHECK((cache.sym_size(1) * cache.sym_size(3)).sym_eq(key.sym_size(1) * key.sym_size(2)), op, ": ", name,
                  " has ", cache.sym_size(1), " parts of ", cache.sym_size(3), " columns, the rows ",
                  key.sym_size(1) * key.sym_size(2));
}

void check_gathered_gradient(const at::Tensor& grad, c10::SymIntArrayRef sizes, const at::Tensor& index) {
  TORCH_CHECK(!sizes.empty(), "npu_gather_sparse_index_backward: self_sizes is empty");
  Sizes wanted = sizes_of(index);
  wanted.insert(wanted.end(), sizes.begin() + 1, sizes.end());
  need_sizes("npu_gather_sparse_index_backward", "grad", grad, wanted);
}

void check_gathered(const char* op, const at::Tensor& key_cache, const at::Tensor& value_cache,
                    const at::Tensor& tables, const at::Tensor& lengths, const at::Tensor& key, const at::Tensor& value,
                    const OptionalTensor& offset) {
  need_dims(op, "key", key, {3});
  need_dims(op, "value", value, {3});
  check_cache(op, "key_cache", key, key_cache, "Norm");
  check_cache(op, "value_cache", value, value_cache, "Norm");
  need_dims(op, "block_tables", tables, {2});
  need_dims(op, "seq_lens", lengths, {1});
  need_integers(op, "block_tables", tables);
  need_integers(op, "seq_lens", lengths);
  need_sizes(op, "seq_offset", offset, {tables.sym_size(0)});
}

void check_norm_rope(const char* op, const at::Tensor& kv, const at::Tensor& gamma, const at::Tensor& cos,
                     const at::Tensor& sin, const at::Tensor& index, const at::Tensor& k_cache,
                     const at::Tensor& ckv_cache, const OptionalTensor& v, std::string_view mode) {
  check_word(op, "cache_mode", mode, {"Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"});
  need_dims(op, "kv", kv, {4});
  need_dims(op, "gamma", gamma, {1});
  need_dims(op, "cos", cos, {4});
  check_same_sizes(op, "cos", cos, "sin", sin);
  need_integers(op, "index", index);
  const c10::SymInt batch = kv.sym_size(0), rows = kv.sym_size(2), turning = cos.sym_size(-1);
  need_sizes(op, "v", v, {batch, kv.sym_size(1), rows, -1});
  const c10::SymInt columns = given(v) ? kv.sym_size(3) : gamma.sym_size(0) + turning;
  need_sizes(op, "cos", cos, {batch, -1, rows, -1});
  if (given(v)) need_sizes(op, "gamma", gamma, {kv.sym_size(3)});
  TORCH_SYM_CHECK(kv.sym_size(3).sym_eq(columns), op, ": kv has ", kv.sym_size(3), " columns, gamma and cos ", columns);
  TORCH_SYM_CHECK((turning % 2).sym_eq(0), op, ": cos has ", turning, " columns, which are not pairs");
  const bool blocks = mode == "PA_BLK_BNSD" || mode == "PA_BLK_NZ", parts = mode == "PA_NZ" || mode == "PA_BLK_NZ";
  const auto one = [&](const char* name, const at::Tensor& cache, const c10::SymInt& width) {
    if (cache.sym_numel() == 0) return;
    if (mode == "Norm") return need_sizes(op, name, cache, {batch, kv.sym_size(1), -1, width});
    need_sizes(op, name, cache, {-1, -1, kv.sym_size(1), width});
    if (!parts) return;
    TORCH_SYM_CHECK((kv.sym_size(1) * width % part_of(cache)).sym_eq(0), op, ": ", name, " has ", width,
                    " columns, which are not parts of ", part_of(cache));
    TORCH_CHECK(cache.select(0, 0).is_contiguous(), op, ": ", name, " in the mode ", mode,
                " is read in parts of columns, so its blocks must be contiguous; give a cache that is no such view");
  };
  one("k_cache", k_cache, given(v) ? kv.sym_size(3) : turning);
  one("ckv_cache", ckv_cache, given(v) ? v->sym_size(3) : gamma.sym_size(0));
  c10::SymInt each = rows;
  if (blocks && k_cache.sym_numel() != 0) each = (rows + k_cache.sym_size(1) - 1) / k_cache.sym_size(1);
  need_elements(op, "index", index, {batch * each});
}

void check_places(const char* op, const at::Tensor& data, const at::Tensor& indices, const at::Tensor& updates) {
  need_integers(op, "indices", indices);
  TORCH_CHECK(indices.dim() > 0, op, ": indices must have dimensions, the last of a place's members");
  const int64_t members = indices.sym_size(-1).guard_int(__FILE__, __LINE__);
  TORCH_CHECK(members <= data.dim(), op, ": indices must name places of up to ", data.dim(), " members, those of ",
              data.sym_sizes(), ", it has the sizes ", indices.sym_sizes());
  Sizes sizes = without_last(indices);
  for (int64_t d = members; d < data.dim(); ++d) sizes.push_back(data.sym_size(d));
  need_sizes(op, "updates", updates, sizes);
}

void check_updates(const char* op, const at::Tensor& data, const at::Tensor& indices, const at::Tensor& updates,
                   int64_t axis) {
  need_integers(op, "indices", indices);
  need_dims(op, "indices", indices, {0, 1, 2});
  need_dims(op, "updates", updates, {data.dim()});
  need_axis(op, data, axis);
  const int64_t along = wrap(data, axis);
  TORCH_CHECK(indices.dim() == 0 || along > 0, op, ": axis is ", axis, ", but dimension 0 is that of indices");
  if (indices.dim() == 2) need_sizes(op, "indices", indices, {-1, 2});
  if (indices.dim() > 0) {
    TORCH_SYM_CHECK(indices.sym_size(0).sym_eq(updates.sym_size(0)), op, ": indices name ", indices.sym_size(0),
                    " places, updates are ", updates.sym_size(0));
    TORCH_SYM_CHECK(updates.sym_size(0).sym_le(data.sym_size(0)).sym_or(c10::SymBool(indices.dim() == 2)), op, ": ",
                    updates.sym_size(0), " updates of ", data.sym_size(0), " batches");
  }
  for (int64_t d = indices.dim() > 0 ? 1 : 0; d < data.dim(); ++d) {
    const c10::SymInt has = updates.sym_size(d), room = data.sym_size(d);
    TORCH_SYM_CHECK(d == along ? has.sym_le(room) : has.sym_eq(room), op, ": dimension ", d, " of updates is ", has,
                    ", that of the tensor written ", room);
  }
}

void check_list_updates(const char* op, at::TensorList data, const at::Tensor& indices, const at::Tensor& updates,
                        const OptionalTensor& mask, int64_t axis) {
  const c10::SymInt count = static_cast<int64_t>(data.size());
  need_integers(op, "indices", indices);
  need_sizes(op, "indices", indices, {count});
  need_elements(op, "mask", mask, {count});
  TORCH_CHECK(updates.dim() > 1 && updates.sym_size(0) == count, op, ": updates of ", updates.sym_sizes(), " for ",
              data.size(), " tensors");
  for (const at::Tensor& t : data) {
    need_dims(op, "a tensor of the list", t, {updates.dim() - 1});
    need_same_type(op, "a tensor of the list", t, "updates", updates);
    need_axis(op, t, axis);
    for (int64_t d = 0, along = wrap(t, axis); d < t.dim(); ++d) {
      const c10::SymInt has = updates.sym_size(d + 1), room = t.sym_size(d);
      TORCH_SYM_CHECK(d == along ? has.sym_le(room) : has.sym_eq(room), op, ": updates of ", updates.sym_sizes(),
                      " do not fit a tensor of ", t.sym_sizes());
    }
  }
}

void check_quant_updates(const char* op, const at::Tensor& data, const at::Tensor& indices, const at::Tensor& updates,
                         const at::Tensor& scales, const OptionalTensor& zero_points, int64_t axis,
                         int64_t quant_axis) {
  need_type(op, "input", data, {at::kChar});
  check_updates(op, data, indices, updates, axis);
  TORCH_CHECK(updates.dim() > 0, op, ": updates have no dimensions");
  TORCH_CHECK_NOT_IMPLEMENTED(quant_axis == -1 || quant_axis == updates.dim() - 1, op, ": quant_axis ", quant_axis,
                              " is not implemented; -1 is");
  need_elements(op, "quant_scales", scales, {1, updates.sym_size(-1)});
  need_elements(op, "quant_zero_points", zero_points, {1, updates.sym_size(-1)});
}

void check_positions(const at::Tensor& positions, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& table, int64_t columns, at::OptionalIntArrayRef sections,
                     std::string_view rotary, std::string_view cache) {
  check_word("npu_mrope", "rotary_mode", rotary, {"half", "interleaved", "interleave"});
  check_word("npu_mrope", "cache_mode", cache, {"default", "interleave"});
  TORCH_CHECK(positions.dim() == 1 || positions.dim() == 2, "npu_mrope: positions have one or two dimensions, not ",
              positions.dim());
  TORCH_CHECK(query.dim() == 2, "npu_mrope: query has two dimensions, not ", query.dim());
  TORCH_CHECK(positions.dim() == 1 || (sections && int64_t(sections->size()) == positions.size(0)),
              "npu_mrope: positions of two dimensions need a section of mrope_section for each row");
  constexpr const char* kOp = "npu_mrope";
  need_integers(kOp, "positions", positions);
  need_dims(kOp, "cos_sin_cache", table, {2});
  const c10::SymInt tokens = positions.sym_size(-1), turning = table.sym_size(1);
  TORCH_CHECK_VALUE(columns > 0, kOp, ": head_size is ", columns);
  TORCH_SYM_CHECK((turning % 2).sym_eq(0).sym_and(turning.sym_le(columns)), kOp, ": cos_sin_cache has ", turning,
                  " columns, cosine and sine of at most head_size ", columns);
  for (const at::Tensor* t : {&query, &key}) {
    need_sizes(kOp, t == &query ? "query" : "key", *t, {tokens, -1});
    TORCH_SYM_CHECK((t->sym_size(1) % columns).sym_eq(0), kOp, ": ", t->sym_size(1), " columns are not heads of ",
                    columns);
  }
  if (positions.dim() == 1 || cache == "interleave") return;
  int64_t sum = 0;
  for (int64_t section : *sections) sum += section;
  TORCH_SYM_CHECK((turning / 2).sym_eq(sum), kOp, ": mrope_section adds up to ", sum, ", not to the ", turning / 2,
                  " cosines");
}

void check_qkv_cache(const char* op, const at::Tensor& qkv, const QkvOperands& with, at::IntArrayRef sizes,
                     at::IntArrayRef heads, std::string_view mode, bool outputs) {
  const at::Tensor& gamma = with.q_gamma;
  check_word(op, "cache_mode", mode, {"Norm", "PA_NZ"});
  TORCH_CHECK_NOT_IMPLEMENTED(!outputs, op, ": is_output_qkv is not implemented");
  TORCH_CHECK(sizes.size() == 4 && heads.size() == 3, op, ": qkv_size has four members and head_nums three, not ",
              sizes.size(), " and ", heads.size());
  need_sizes(op, "q_gamma", gamma, {-1});
  TORCH_SYM_CHECK(gamma.sym_size(0).sym_gt(0), op, ": q_gamma has no elements");
  TORCH_CHECK(
      qkv.dim() == 2 && gamma.dim() == 1 && qkv.sym_size(1) == gamma.sym_size(0) * (heads[0] + heads[1] + heads[2]), op,
      ": qkv of ", qkv.sym_sizes(), " has not as many columns as its heads of ", gamma.sym_sizes());
  const c10::SymInt rows = qkv.sym_size(0), columns = gamma.sym_size(0);
  TORCH_SYM_CHECK((c10::SymInt(sizes[0]) * sizes[1])
                      .sym_eq(rows)
                      .sym_and(columns.sym_eq(sizes[3]))
                      .sym_and(c10::SymBool(sizes[2] == heads[0] + heads[1] + heads[2])),
                  op, ": qkv_size must be [sequences, rows, heads, columns] of qkv, it is ", sizes, " for qkv of ",
                  qkv.sym_sizes(), " and head_nums ", heads);
  need_sizes(op, "k_gamma", with.k_gamma, {columns});
  need_sizes(op, "cos", with.cos, {rows, -1});
  need_sizes(op, "sin", with.sin, {rows, with.cos.sym_size(1)});
  const c10::SymInt turning = with.cos.sym_size(1);
  TORCH_SYM_CHECK(turning.sym_le(columns).sym_and((turning % 2).sym_eq(0)).sym_and(turning.sym_gt(0)), op,
                  ": cos must have an even number of columns, up to the ", columns, " of a head, got ", turning);
  need_elements(op, "index", with.index, {rows});
}

void check_rope_cache(const char* op, const at::Tensor& x, const RopeCaches& c, at::IntArrayRef splits,
                      int64_t quant_mode, std::string_view layout, std::string_view cache_mode) {
  const at::Tensor& cos = c.cos;
  check_number(op, "quant_mode", quant_mode, {0});
  check_word(op, "input_layout", layout, {"BSND"});
  check_word(op, "cache_mode", cache_mode, {"contiguous", "page"});
  TORCH_CHECK(splits.size() == 3, op, ": size_splits has three members, not ", splits.size());
  TORCH_CHECK(x.dim() >= 2 && cos.dim() >= 1, op, ": x has ", x.dim(), " dimensions");
  TORCH_CHECK(cos.sym_size(-1) > 0, op, ": cos has no columns: they are the size of a head");
  TORCH_CHECK(x.sym_size(-1) == splits[0] + splits[1] + splits[2], op, ": ", x.sym_size(-1),
              " columns are not the sum of size_splits");
  need_dims(op, "x", x, {2, 3});
  check_same_sizes(op, "cos", cos, "sin", c.sin);
  const c10::SymInt d = cos.sym_size(-1), batch = x.sym_size(0), rows = x.dim() == 3 ? batch * x.sym_size(1) : batch;
  need_elements(op, "cos", cos, {rows * d});
  TORCH_SYM_CHECK((d % 2).sym_eq(0), op, ": cos has ", d, " columns, which are not pairs");
  for (int64_t split : splits) {
    TORCH_SYM_CHECK((c10::SymInt(split) % d).sym_eq(0).sym_and(c10::SymInt(split).sym_gt(0)), op, ": size_splits has ",
                    split, ", which is no number of heads of ", d, " columns");
  }
  TORCH_CHECK(splits[1] == splits[2], op, ": size_splits gives key and value ", splits[1], " and ", splits[2],
              " columns");
  need_integers(op, "indices", c.indices);
  const bool paged = cache_mode == "page";
  need_elements(op, "indices", c.indices, {paged ? rows : batch});
  for (const at::Tensor* cache : {&c.k, &c.v}) {
    const char* name = cache == &c.k ? "k_cache" : "v_cache";
    need_type(op, name, *cache, {at::kChar});
    need_sizes(op, name, *cache, {-1, -1, c10::SymInt(splits[1]) / d, d});
    TORCH_SYM_CHECK(c10::SymBool(paged).sym_or(cache->sym_size(0).sym_ge(batch)), op, ": ", name, " has ",
                    cache->sym_size(0), " sequences, x ", batch);
  }
}

void check_cache_scatter(const char* op, const at::Tensor& key, const at::Tensor& value, const at::Tensor& key_cache,
                         const at::Tensor& value_cache, const at::Tensor& slot_mapping,
                         const OptionalTensor& compress_lens, const OptionalTensor& compress_seq_offsets,
                         std::optional<std::string_view> cache_mode) {
  check_cache_rows(op, key, value, slot_mapping, compress_lens, compress_seq_offsets);
  check_word(op, "cache_mode", cache_mode.value_or("Norm"), {"Norm", "PA_NZ"});
  check_cache(op, "key_cache", key, key_cache, cache_mode.value_or("Norm"));
  check_cache(op, "value_cache", value, value_cache, cache_mode.value_or("Norm"));
}

void check_quant_scatter(const char* op, const at::Tensor& input, const at::Tensor& indices, const at::Tensor& updates,
                         const at::Tensor& quant_scales, const OptionalTensor& quant_zero_points, int64_t axis,
                         int64_t quant_axis, std::string_view reduce, std::optional<int64_t> dst_type,
                         std::optional<std::string_view> round_mode) {
  check_word(op, "reduce", reduce, {"update"});
  check_word(op, "round_mode", round_mode.value_or("rint"), {"rint"});
  check_int8(op, "dst_type", dst_type);
  check_quant_updates(op, input, indices, updates, quant_scales, quant_zero_points, axis, quant_axis);
}

void check_norm_rope_v2(const char* op, const at::Tensor& kv, const at::Tensor& gamma, const at::Tensor& cos,
                        const at::Tensor& sin, const at::Tensor& index, const at::Tensor& k_cache,
                        const at::Tensor& ckv_cache, const OptionalTensor& v, std::string_view cache_mode,
                        std::optional<int64_t> k_cache_dtype, std::optional<int64_t> ckv_cache_dtype) {
  refuse_given(op, "k_cache_dtype", k_cache_dtype);
  refuse_given(op, "ckv_cache_dtype", ckv_cache_dtype);
  check_norm_rope(op, kv, gamma, cos, sin, index, k_cache, ckv_cache, v, cache_mode);
}

void scatter_copies_into(const at::Tensor& key, const at::Tensor& value, const at::Tensor& key_cache,
                         const at::Tensor& value_cache, const at::Tensor& slot_mapping,
                         const OptionalTensor& compress_lens, const OptionalTensor& compress_seq_offsets,
                         const OptionalTensor& seq_lens, std::optional<std::string_view> cache_mode,
                         at::Tensor& key_out, at::Tensor& value_out) {
  key_out.copy_(key_cache);
  value_out.copy_(value_cache);
  ACLNN(aclnnScatterPaKvCache)(key, key_out, slot_mapping, value, value_out, compress_lens, compress_seq_offsets,
                               seq_lens, cache_mode.value_or("Norm"), "", nullptr, nullptr);
}

void norm_rope_copies_into(const at::Tensor& kv, const at::Tensor& gamma, const at::Tensor& cos, const at::Tensor& sin,
                           const at::Tensor& index, const at::Tensor& k_cache, const at::Tensor& ckv_cache,
                           const OptionalTensor& k_rope_scale, const OptionalTensor& c_kv_scale,
                           const OptionalTensor& k_rope_offset, const OptionalTensor& c_kv_offset,
                           const OptionalTensor& v, double epsilon, std::string_view cache_mode, bool is_output_kv,
                           at::Tensor& k_rope, at::Tensor& c_kv, at::Tensor& k_out, at::Tensor& ckv_out) {
  k_out.copy_(k_cache);
  ckv_out.copy_(ckv_cache);
  ACLNN(aclnnKvRmsNormRopeCacheV2)(kv, gamma, cos, sin, index, k_out, ckv_out, k_rope_scale, c_kv_scale, k_rope_offset,
                                   c_kv_offset, v, epsilon, cache_mode, is_output_kv, k_rope, c_kv);
}

void qkv_norm_rope_copies_into(const at::Tensor& qkv, const at::Tensor& q_gamma, const at::Tensor& k_gamma,
                               const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& index,
                               const at::Tensor& q_out, const at::Tensor& k_cache, const at::Tensor& v_cache,
                               at::IntArrayRef qkv_size, at::IntArrayRef head_nums, const OptionalTensor& k_scale,
                               const OptionalTensor& v_scale, const OptionalTensor& k_offset,
                               const OptionalTensor& v_offset, double epsilon, std::string_view cache_mode,
                               at::Tensor& q_copy, at::Tensor& k_copy, at::Tensor& v_copy) {
  q_copy.copy_(q_out);
  k_copy.copy_(k_cache);
  v_copy.copy_(v_cache);
  ACLNN(aclnnQkvRmsNormRopeCache)(qkv, q_gamma, k_gamma, cos, sin, index, q_copy, k_copy, v_copy, k_scale, v_scale,
                                  k_offset, v_offset, qkv_size, head_nums, epsilon, cache_mode, nullptr, nullptr,
                                  nullptr);
}

}  // namespace npu::ops
