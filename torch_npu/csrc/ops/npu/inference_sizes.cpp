// Attention of inference: sizes by layout and checks, see sizes.h.
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

struct QuerySizes {
  c10::SymInt batch, rows, heads;
};

std::string_view operand_layout(std::string_view layout) { return layout.substr(0, layout.find('_')); }
std::string_view result_layout(std::string_view layout) {
  const size_t bar = layout.find('_');
  return bar == std::string_view::npos ? layout : layout.substr(bar + 1);
}

QuerySizes query_sizes(const at::Tensor& q, std::string_view layout, int64_t heads) {
  if (layout == "BSH") return {q.sym_size(0), q.sym_size(1), heads};
  if (layout == "BSND") return {q.sym_size(0), q.sym_size(1), q.sym_size(2)};
  if (layout == "BNSD") return {q.sym_size(0), q.sym_size(2), q.sym_size(1)};
  if (layout == "NSD") return {1, q.sym_size(1), q.sym_size(0)};
  if (layout == "TND") return {1, q.sym_size(0), q.sym_size(1)};
  return {1, q.sym_size(1), q.sym_size(0)};  // NTD
}

c10::SymInt value_columns(const at::Tensor& v, std::string_view layout, const OptionalTensor& table, int64_t kv_heads) {
  const int64_t packed = v.scalar_type() == at::kInt ? 8 : 1;
  if (given(table) && v.dim() == 5) return v.sym_size(2) * v.sym_size(4) * packed;
  const bool joined = given(table) ? v.dim() == 3 : layout == "BSH";
  return (joined ? v.sym_size(2) / kv_heads : v.sym_size(-1)) * packed;
}

}  // namespace

void check_inference(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     InferenceShape shape, const OptionalTensor& table, const OptionalTensor& padding_mask) {
  refuse_given(op, "padding_mask", padding_mask);
  check_word(op, "input_layout", shape.layout,
             {"BSH", "BSND", "BNSD", "TND", "NTD", "NSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "BNSD_NBSD",
              "BSND_NBSD", "BSH_NBSD", "TND_NTD", "NTD_TND", "BSH_NBSD"});
  TORCH_CHECK_VALUE(shape.heads > 0 && shape.kv_heads >= 0, op, ": ", shape.heads, " heads and ", shape.kv_heads,
                    " key heads");
  TORCH_CHECK(shape.kv_heads == 0 || shape.heads % shape.kv_heads == 0, op, ": ", shape.heads,
              " heads are not a multiple of ", shape.kv_heads, " key heads");
  const std::string_view layout = operand_layout(shape.layout);
  const int64_t dims = layout == "BSND" || layout == "BNSD" ? 4 : 3;
  TORCH_CHECK(query.dim() == dims, op, ": a query of the layout ", layout, " has ", dims, " dimensions, not ",
              query.dim());
  TORCH_CHECK(key.dim() >= 3 && value.dim() >= 3, op, ": key and value have ", key.dim(), " and ", value.dim(),
              " dimensions");
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(query.scalar_type()) && query.element_size() > 1, op, ": a query of ",
                              query.scalar_type(), " is not implemented");
  // A cache of integers is quantized: it has a scale; others are of the query's type.
  need_same_type(op, "key", key, "value", value);
  TORCH_CHECK(key.scalar_type() == query.scalar_type() || at::isIntegralType(key.scalar_type(), false), op,
              ": query is ", query.scalar_type(), " and key ", key.scalar_type(),
              "; they have one type, or the key is quantized");
  const c10::SymInt heads = shape.heads, kv_heads = shape.kv_heads ? shape.kv_heads : shape.heads;
  TORCH_SYM_CHECK(query_sizes(query, layout, shape.heads).heads.sym_eq(heads), op, ": the query has ",
                  query_sizes(query, layout, shape.heads).heads, " heads, not ", heads);
  if (layout == "BSH") {
    TORCH_SYM_CHECK((query.sym_size(2) % heads).sym_eq(0), op, ": ", query.sym_size(2), " columns are not ", heads,
                    " heads");
  }
  need_integers(op, "block_table", table);
  if (given(table)) {
    need_sizes(op, "block_table", *table,
               {layout == "TND" || layout == "NTD" ? c10::SymInt(-1) : query.sym_size(0), -1});
    for (const at::Tensor* t : {&key, &value}) need_dims(op, "a paged cache", *t, {3, 4, 5});
    return;
  }
  for (const at::Tensor* t : {&key, &value}) {
    const char* name = t == &key ? "key" : "value";
    need_dims(op, name, *t, {dims});
    if (layout == "BSH") {
      TORCH_SYM_CHECK((t->sym_size(2) % kv_heads).sym_eq(0), op, ": ", t->sym_size(2), " columns of ", name,
                      " are not ", kv_heads, " heads");
    } else {
      const c10::SymInt has = query_sizes(*t, layout, 0).heads;
      TORCH_SYM_CHECK(has.sym_eq(kv_heads), op, ": ", name, " has ", has, " heads, not ", kv_heads);
    }
    const c10::SymInt batch = query_sizes(query, layout, shape.heads).batch, has = query_sizes(*t, layout, 0).batch;
    TORCH_SYM_CHECK(has.sym_eq(batch), op, ": ", name, " has a batch of ", has, ", query of ", batch);
  }
  const c10::SymInt keys = query_sizes(key, layout, 0).rows, values = query_sizes(value, layout, 0).rows;
  TORCH_SYM_CHECK(keys.sym_eq(values), op, ": ", keys, " rows of key and ", values, " of value");
}

void check_lengths(const char* op, const at::Tensor& query, InferenceShape shape, const OptionalTensor& table,
                   at::OptionalIntArrayRef of_query, at::OptionalIntArrayRef of_key, const at::Tensor& key) {
  const std::string_view layout = operand_layout(shape.layout);
  const bool packed = layout == "TND" || layout == "NTD";
  const QuerySizes q = query_sizes(query, layout, shape.heads);
  if (given(table)) TORCH_CHECK(of_key && !of_key->empty(), op, ": a paged cache needs the lengths of the keys");
  if (packed)
    TORCH_CHECK(of_query && !of_query->empty(), op, ": the layout ", layout, " needs the ends of the queries");
  if (packed) TORCH_CHECK(of_key && !of_key->empty(), op, ": the layout ", layout, " needs the lengths of the keys");
  const auto one = [&](const char* name, at::OptionalIntArrayRef given_ones, bool ends, const c10::SymInt& most) {
    if (!given_ones || given_ones->empty()) return;
    const at::IntArrayRef lengths = *given_ones;
    const c10::SymInt batch = packed ? c10::SymInt(static_cast<int64_t>(of_query->size())) : q.batch;
    const c10::SymInt count = static_cast<int64_t>(lengths.size());
    TORCH_SYM_CHECK(count.sym_ge(batch).sym_or(c10::SymBool(count == 1 && !ends)), op, ": ", count, " ", name, " for ",
                    batch, " sequences; give one for all, or one each");
    int64_t last = 0;
    for (int64_t length : lengths) {
      TORCH_CHECK_VALUE(length >= last, op, ": ", name, " are ", lengths,
                        ends ? ": ends of sequences do not decrease" : ": a length is not negative");
      TORCH_SYM_CHECK(c10::SymInt(length).sym_le(most), op, ": ", name, " are ", lengths, ", but there are ", most,
                      " rows");
      if (ends) last = length;
    }
  };
  one("lengths of the query", of_query, packed, q.rows);
  one("lengths of the keys", of_key, packed && !given(table),
      given(table) ? c10::SymInt(INT64_MAX >> 2) : query_sizes(key, layout, 0).rows);
}

void check_parts(at::TensorList logs, at::TensorList parts, int64_t kind) {
  constexpr const char* kOp = "npu_attention_update";
  check_number(kOp, "update_type", kind, {0, 1});
  TORCH_CHECK(!logs.empty() && logs.size() == parts.size(), kOp, ": ", logs.size(), " logarithms and ", parts.size(),
              " results");
  need_dims(kOp, "local_out", parts[0], {2});
  for (size_t i = 0; i < parts.size(); ++i) {
    need_sizes(kOp, "local_out", parts[i], sizes_of(parts[0]));
    need_same_type(kOp, "local_out[0]", parts[0], "another of local_out", parts[i]);
    need_sizes(kOp, "lse", logs[i], {parts[0].sym_size(0)});
  }
}

void check_ring(const at::Tensor& before, const at::Tensor& before_max, const at::Tensor& before_sum,
                const at::Tensor& now, const at::Tensor& now_max, const at::Tensor& now_sum, const OptionalTensor& ends,
                std::string_view layout) {
  constexpr const char* kOp = "npu_ring_attention_update";
  check_word(kOp, "input_layout", layout, {"SBH", "TND"});
  need_dims(kOp, "prev_attn_out", before, {3});
  need_sizes(kOp, "cur_attn_out", now, sizes_of(before));
  need_dims(kOp, "prev_softmax_max", before_max, {layout == "SBH" ? 4 : 3});
  for (const at::Tensor* t : {&before_sum, &now_max, &now_sum}) {
    need_sizes(kOp, "a softmax_max or softmax_sum", *t, sizes_of(before_max));
  }
  need_integers(kOp, "actual_seq_qlen", ends);
  const c10::SymInt rows = layout == "SBH" ? before.sym_size(0) * before.sym_size(1) : before.sym_size(0);
  const c10::SymInt heads = layout == "SBH" ? before_max.sym_size(1) : before.sym_size(1);
  need_elements(kOp, "prev_softmax_max", before_max, {rows * heads * before_max.sym_size(-1)});
}

Sizes inference_out(const at::Tensor& query, const at::Tensor& value, const OptionalTensor& table,
                    InferenceShape shape) {
  const int64_t kv_heads = shape.kv_heads ? shape.kv_heads : shape.heads;
  const std::string_view from = operand_layout(shape.layout), to = result_layout(shape.layout);
  const auto [b, s, n] = query_sizes(query, from, shape.heads);
  const c10::SymInt d = value_columns(value, from, table, kv_heads);
  if (to == "BSH") return {b, s, n * d};
  if (to == "BSND") return {b, s, n, d};
  if (to == "BNSD") return {b, n, s, d};
  if (to == "NBSD") return {n, b, s, d};
  if (to == "TND") return {s, n, d};
  return {n, s, d};  // NTD, NSD
}

Sizes inference_lse(const at::Tensor& query, InferenceShape shape) {
  const std::string_view layout = operand_layout(shape.layout);
  const auto [b, s, n] = query_sizes(query, layout, shape.heads);
  if (layout == "TND" || layout == "NTD") return {s, n, 1};
  return {b, n, s, 1};
}

at::OptionalIntArrayRef plain(at::OptionalSymIntArrayRef values) {
  return values ? at::OptionalIntArrayRef(C10_AS_INTARRAYREF_SLOW(*values)) : std::nullopt;
}

void check_masked_inference(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            InferenceShape shape, const OptionalTensor& table, const OptionalTensor& padding_mask,
                            at::OptionalIntArrayRef of_query, at::OptionalIntArrayRef of_key, int64_t sparse_mode) {
  check_inference(op, query, key, value, shape, table, padding_mask);
  check_lengths(op, query, shape, table, of_query, of_key, key);
  check_number(op, "sparse_mode", sparse_mode, {0, 1, 2, 3, 4});
}

void check_inference_v2(const InferenceOperands& in, InferenceShape shape, const OptionalTensor& table,
                        at::OptionalIntArrayRef of_query, at::OptionalIntArrayRef of_key, int64_t sparse_mode,
                        const InferenceScales& scales, const InferenceTypes& types,
                        const InferenceScaleTypes& scale_types, const std::optional<int64_t>& out_type) {
  constexpr const char* kOp = "npu_fused_infer_attention_score_v2";
  check_masked_inference(kOp, in.query, in.key, in.value, shape, table, {}, of_query, of_key, sparse_mode);
  refuse_given(kOp, "dequant_scale_query", scales.query);
  refuse_given(kOp, "dequant_scale_key_rope", scales.key_rope);
  refuse_given(kOp, "quant_scale_p", scales.softmax);
  check_dtypes(kOp, {{"query_dtype", types.query, in.query},
                     {"key_dtype", types.key, in.key, Reading::kPacked},
                     {"value_dtype", types.value, in.value, Reading::kPacked},
                     {"query_rope_dtype", types.query_rope, in.query_rope},
                     {"key_rope_dtype", types.key_rope, in.key_rope},
                     {"dequant_scale_query_dtype", scale_types.query, scales.query},
                     {"dequant_scale_key_dtype", scale_types.key, scales.key},
                     {"dequant_scale_value_dtype", scale_types.value, scales.value},
                     {"dequant_scale_key_rope_dtype", scale_types.key_rope, scales.key_rope}});
  refuse_given(kOp, "key_shared_prefix_dtype", types.key_prefix);
  refuse_given(kOp, "value_shared_prefix_dtype", types.value_prefix);
  check_result_type(kOp, "out_dtype", out_type, given(scales.out) ? at::kChar : in.query.scalar_type());
}

void check_inference_output(const at::Tensor& query, const at::Tensor& value, const std::optional<int64_t>& query_type,
                            const std::optional<int64_t>& value_type, const OptionalTensor& out_scale,
                            const std::optional<int64_t>& out_type) {
  constexpr const char* kOp = "_npu_fused_infer_attention_score_v2_infer_output";
  check_dtypes(kOp, {{"query_dtype", query_type, query}, {"value_dtype", value_type, value, Reading::kPacked}});
  check_result_type(kOp, "out_dtype", out_type, given(out_scale) ? at::kChar : query.scalar_type());
}

}  // namespace npu::ops
