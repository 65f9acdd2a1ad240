// Attention of inference: sizes by layout, checks of query, key and value and of lengths, see sizes.h.
#include "csrc/core/type_name.h"
#include "csrc/ops/npu/inference_layout.h"

namespace npu::ops {
namespace inference {

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

}  // namespace inference

using namespace inference;

namespace {

std::string_view result_layout(std::string_view layout) {
  const size_t bar = layout.find('_');
  return bar == std::string_view::npos ? layout : layout.substr(bar + 1);
}

}  // namespace

void check_inference(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     InferenceShape shape, const OptionalTensor& table, const OptionalTensor& padding_mask) {
  refuse_given(op, "padding_mask", padding_mask);
  check_word(op, "input_layout", shape.layout,
             {"BSH", "BSND", "BNSD", "TND", "NTD", "NSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "BNSD_NBSD",
              "BSND_NBSD", "BSH_NBSD", "TND_NTD", "NTD_TND"});
  TORCH_CHECK_VALUE(shape.heads > 0 && shape.kv_heads >= 0, op, ": num_heads (num_query_heads) is ", shape.heads,
                    ", num_key_value_heads ", shape.kv_heads);
  TORCH_CHECK(shape.kv_heads == 0 || shape.heads % shape.kv_heads == 0, op, ": num_heads (num_query_heads) is ",
              shape.heads, ", no multiple of num_key_value_heads, ", shape.kv_heads);
  const std::string_view layout = operand_layout(shape.layout);
  const int64_t dims = layout == "BSND" || layout == "BNSD" ? 4 : 3;
  TORCH_CHECK(query.dim() == dims, op, ": a query of the layout ", layout, " has ", dims, " dimensions, not ",
              query.dim());
  TORCH_CHECK(key.dim() >= 3 && value.dim() >= 3, op, ": key and value have ", key.dim(), " and ", value.dim(),
              " dimensions");
  // What goes with int8 operands is asked before (whole_attention.cpp).
  const bool wide = at::isFloatingType(query.scalar_type()) && query.element_size() > 1;
  TORCH_CHECK_NOT_IMPLEMENTED(wide || query.scalar_type() == at::kChar, op, ": a query of ", type_name(query),
                              " is not implemented");
  // A cache of integers is quantized: it has a scale; others are of the query's type.
  need_same_type(op, "key", key, "value", value);
  TORCH_CHECK(key.scalar_type() == query.scalar_type() || at::isIntegralType(key.scalar_type(), false), op,
              ": query is ", type_name(query), " and key ", type_name(key),
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
    need_sizes(op, "block_table", *table, {is_packed(layout) ? c10::SymInt(-1) : query.sym_size(0), -1});
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
                   at::OptionalIntArrayRef of_query, at::OptionalIntArrayRef of_key, const at::Tensor& key,
                   bool decodes_one_row) {
  const std::string_view layout = operand_layout(shape.layout);
  const bool packed = is_packed(layout);
  const QuerySizes q = query_sizes(query, layout, shape.heads);
  if (decodes_one_row && !packed && layout != "NSD" && q.rows == 1) of_query = std::nullopt;  // not read
  if (given(table)) TORCH_CHECK(of_key && !of_key->empty(), op, ": a paged cache needs the lengths of the keys");
  if (packed)
    TORCH_CHECK(of_query && !of_query->empty(), op, ": the layout ", layout, " needs the ends of the queries");
  if (packed) TORCH_CHECK(of_key && !of_key->empty(), op, ": the layout ", layout, " needs the lengths of the keys");
  const auto one = [&](const char* name, at::OptionalIntArrayRef given_ones, bool ends, const c10::SymInt& most) {
    if (!given_ones || given_ones->empty()) return;
    const c10::SymInt batch = packed ? c10::SymInt(static_cast<int64_t>(of_query->size())) : q.batch;
    const c10::SymInt count = static_cast<int64_t>(given_ones->size());
    TORCH_SYM_CHECK((ends ? count.sym_eq(batch) : count.sym_ge(batch)).sym_or(c10::SymBool(count == 1 && !ends)), op,
                    ": ", count, " ", name, " for ", batch, " sequences; give ",
                    ends ? "the end of each" : "one for all, or one each, behind which more are not read");
    const at::IntArrayRef lengths = first_lengths(*given_ones, batch);
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
  if (is_packed(layout)) return {s, n, 1};
  return {b, n, s, 1};
}

at::OptionalIntArrayRef plain(at::OptionalSymIntArrayRef values) {
  return values ? at::OptionalIntArrayRef(C10_AS_INTARRAYREF_SLOW(*values)) : std::nullopt;
}

}  // namespace npu::ops
