// Attention of inference: sizes by layout and checks, see sizes.h.
#include <algorithm>
#include <sstream>

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
    at::IntArrayRef lengths = *given_ones;
    const c10::SymInt batch = packed ? c10::SymInt(static_cast<int64_t>(of_query->size())) : q.batch;
    const c10::SymInt count = static_cast<int64_t>(lengths.size());
    TORCH_SYM_CHECK((ends ? count.sym_eq(batch) : count.sym_ge(batch)).sym_or(c10::SymBool(count == 1 && !ends)), op,
                    ": ", count, " ", name, " for ", batch, " sequences; give ",
                    ends ? "the end of each" : "one for all, or one each, behind which more are not read");
    // The vendor takes the first ones of a longer list.
    if (const auto sequences = batch.maybe_as_int(); sequences && *sequences < static_cast<int64_t>(lengths.size())) {
      lengths = lengths.slice(0, std::max<int64_t>(*sequences, 1));
    }
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
  if (layout == "TND" || layout == "NTD") return {s, n, 1};
  return {b, n, s, 1};
}

at::OptionalIntArrayRef plain(at::OptionalSymIntArrayRef values) {
  return values ? at::OptionalIntArrayRef(C10_AS_INTARRAYREF_SLOW(*values)) : std::nullopt;
}

// One place makes the messages: each list of types that TORCH_CHECK is given is code of its own. `%` is the next number.
[[gnu::noinline]] static void need(const c10::SymBool& holds, const char* op, const char* name, const char* must,
                                   std::initializer_list<c10::SymInt> numbers, const at::Tensor* t) {
  if (holds.guard_bool(__FILE__, __LINE__)) return;
  std::ostringstream text;
  const c10::SymInt* next = numbers.begin();
  for (const char* c = must; *c != 0; ++c) {
    if (*c == '%') {
      text << *next++;
    } else {
      text << *c;
    }
  }
  if (t != nullptr) text << ", it has the sizes " << t->sym_sizes();
  TORCH_CHECK(false, op, ": ", name, " must ", text.str());
}

static void check_operands(const InferenceCall& c, const InferenceMore& more, const CacheScales& scales,
                           Decodes decodes) {
  const char* const op = c.op;
  const bool second = std::string_view(op).ends_with("_v2");
  const auto named = [&](const char* first, const char* of_second) { return second ? of_second : first; };
  const char *const quant_scale = named("quant_scale2", "quant_scale_out"), *const quant_offset = named(
                                                                                "quant_offset2", "quant_offset_out");
  const std::string_view layout = operand_layout(c.shape.layout);
  const bool packed = layout == "TND" || layout == "NTD", joined = layout == "BSH";
  const int64_t heads = c.shape.heads, kv_heads = c.shape.kv_heads ? c.shape.kv_heads : heads;
  const QuerySizes q = query_sizes(c.query, layout, heads);
  const c10::SymInt columns = joined ? c.query.sym_size(2) / heads : c.query.sym_size(-1);
  const c10::SymInt has = value_columns(c.key, layout, c.table, kv_heads);
  need(has.sym_eq(columns), op, "key", "have the % columns of a head of query, not %", {columns, has}, &c.key);
  const bool joined_cache = given(c.table) ? c.key.dim() == 3 : joined;
  for (const at::Tensor* t : {&c.key, &c.value}) {
    need(c10::SymBool(!joined_cache).sym_or((t->sym_size(-1) % kv_heads).sym_eq(0)), op, t == &c.key ? "key" : "value",
         "have columns of % heads", {kv_heads}, t);
  }
  need(c10::SymBool(decodes != Decodes::kAlways)
           .sym_or(value_columns(c.value, layout, c.table, kv_heads).sym_eq(columns)),
       op, "value", "have the % columns of a head of query", {columns}, &c.value);
  const auto one = [&](const char* name, const OptionalTensor& t) { need_elements(op, name, t, {1}); };
  one("query_padding_size", more.q_padding);
  one("kv_padding_size", more.kv_padding);
  need_sizes(op, "learnable_sink", more.sink, {heads});
  const c10::SymInt of_value = value_columns(c.value, layout, c.table, kv_heads);
  need_elements(op, quant_scale, more.out_scale, {1, of_value, of_value * heads});
  need_elements(op, quant_offset, more.out_offset, {1, of_value, of_value * heads});
  need(given(more.out_scale) || !given(more.out_offset), op, quant_offset, "go with a scale, which is not given", {},
       nullptr);
  need(given(more.q_rope) == given(more.k_rope), op, "query_rope", "go together with key_rope; give both or none", {},
       nullptr);
  if (given(more.q_rope)) {
    need_sizes(op, "query_rope", more.q_rope, with_size(c.query, -1, -1));
    if (!given(c.table)) need_sizes(op, "key_rope", more.k_rope, with_size(c.key, -1, -1));
  }
  // The prefix is one sequence for all.
  need(given(more.k_prefix) == given(more.v_prefix), op, "key_shared_prefix",
       "go together with value_shared_prefix; give both or none", {}, nullptr);
  c10::SymInt before = 0;
  if (given(more.k_prefix)) {
    need(!packed, op, "key_shared_prefix", "be left out with packed sequences", {}, nullptr);
    const auto prefix = [&](const char* name, const at::Tensor& t, const at::Tensor& of) {
      Sizes sizes = sizes_of(of);
      sizes[layout == "BNSD" ? 2 : 1] = query_sizes(*more.k_prefix, layout, 0).rows;
      sizes[0] = 1;
      need_dims(op, name, t, {of.dim()});
      need_sizes(op, name, t, sizes);
    };
    need_dims(op, "key_shared_prefix", *more.k_prefix, {c.query.dim()});
    if (!given(c.table)) prefix("key_shared_prefix", *more.k_prefix, c.key);
    if (!given(c.table)) prefix("value_shared_prefix", *more.v_prefix, c.value);
    before = query_sizes(*more.k_prefix, layout, 0).rows;
    if (more.prefix_length && !more.prefix_length->empty()) {
      const c10::SymInt length = more.prefix_length->front();
      need(length.sym_ge(0).sym_and(length.sym_le(before)), op, "actual_shared_prefix_len",
           "be 0 to %, the rows of key_shared_prefix, not %", {before, length}, nullptr);
      before = length;
    }
  } else {
    need(!more.prefix_length || more.prefix_length->empty(), op, "actual_shared_prefix_len",
         "go with key_shared_prefix, which is not given", {}, nullptr);
  }
  // The longest sequence.
  const auto longest = [&](at::OptionalIntArrayRef lengths, bool ends, const c10::SymInt& all) {
    if (!lengths || lengths->empty()) return all;
    int64_t found = 0, last = 0;
    const auto sequences = packed ? std::nullopt : q.batch.maybe_as_int();
    const size_t used = sequences && *sequences > 0 ? static_cast<size_t>(*sequences) : lengths->size();
    for (const int64_t length : lengths->slice(0, std::min(used, lengths->size()))) {
      found = std::max(found, length - last);
      if (ends) last = length;
    }
    return c10::SymInt(found);
  };
  const c10::SymInt rows = longest(c.of_query, packed, q.rows);
  const c10::SymInt all = given(c.table) ? c10::SymInt(0) : query_sizes(c.key, layout, 0).rows;
  const c10::SymInt own = longest(c.of_key, packed && !given(c.table), all), keys = own + before;
  if (given(c.table)) {
    const bool same = c.value.dim() == c.key.dim() && c.value.sym_size(0) == c.key.sym_size(0);
    need(same && c.value.sym_size(1) == c.key.sym_size(1), op, "value", "have as many blocks as key, as large ones", {},
         &c.value);
    const bool rows_first = c.key.dim() == 4 && c.key.sym_size(1) != kv_heads && c.key.sym_size(2) == kv_heads;
    const c10::SymInt block = c.key.sym_size(c.key.dim() == 5 ? 3 : c.key.dim() == 3 || rows_first ? 1 : 2);
    need(c10::SymBool(more.block_size == 0).sym_or(block.sym_eq(more.block_size)), op, "block_size",
         "be the % rows that a block of key has, not %", {block, more.block_size}, nullptr);
    need((c.table->sym_size(1) * block).sym_ge(own), op, "block_table", "name blocks of % rows for % keys in each row",
         {block, own}, &*c.table);
    need(!packed || !c.of_query || c.table->sym_size(0) == static_cast<int64_t>(c.of_query->size()), op, "block_table",
         "have a row for each sequence", {}, &*c.table);
  }
  const bool by_batch =
      decodes == Decodes::kAlways || (decodes == Decodes::kOneRow && !packed && layout != "NSD" && q.rows == 1);
  need(c10::SymBool(decodes != Decodes::kAlways).sym_or(q.rows.sym_eq(1)), op, "query", "have one row a sequence", {},
       &c.query);
  const c10::SymInt batch = packed && c.of_query ? c10::SymInt(static_cast<int64_t>(c.of_query->size())) : q.batch;
  // A matrix [rows, keys] or larger, for each head and sequence or for several.
  const auto matrix = [&](const char* name, const at::Tensor& t, const c10::SymInt& least, bool row) {
    need_dims(op, name, t, {2, 3, 4});
    need(t.sym_size(-1).sym_ge(keys).sym_and(
             t.sym_size(-2).sym_ge(least).sym_or(c10::SymBool(row && t.sym_size(-2) == 1))),
         op, name, "have % rows and % columns or more", {least, keys}, &t);
    if (t.dim() == 4)
      need(t.sym_size(0).sym_eq(1).sym_or(t.sym_size(0).sym_eq(batch)), op, name, "be for 1 or % sequences", {batch},
           &t);
  };
  if (given(more.shift)) {
    matrix("pse_shift", *more.shift, rows, true);
    const c10::SymInt of = more.shift->dim() > 2 ? more.shift->sym_size(-3) : c10::SymInt(1);
    need(of.sym_eq(1).sym_or(of.sym_eq(heads)), op, "pse_shift", "be for 1 or % heads", {heads}, &*more.shift);
  }
  TORCH_CHECK(given(more.mask) || c.sparse_mode == 0, op, ": sparse_mode ", c.sparse_mode, " needs atten_mask",
              c.sparse_mode == 1 ? "" : ", the triangle [2048, 2048], True above its diagonal",
              "; without one all keys are seen by sparse_mode 0");
  if (given(more.mask)) check_compressed_mask(op, *more.mask, c.sparse_mode);
  if (given(more.mask) && c.sparse_mode <= 1) {
    const bool row_each = by_batch && more.mask->dim() == 2;
    matrix("atten_mask", *more.mask, row_each ? c10::SymInt(1) : rows, false);
    const c10::SymInt of = more.mask->sym_size(0);
    need(c10::SymBool(!row_each && more.mask->dim() == 2).sym_or(of.sym_eq(1)).sym_or(of.sym_eq(batch)), op,
         "atten_mask", "be for 1 or % sequences", {batch}, &*more.mask);
  }
  // Numbers of quantized caches.
  const bool integers = at::isIntegralType(c.key.scalar_type(), false);
  const auto cache = [&](const char* name, const OptionalTensor& t, int64_t mode, const c10::SymInt& width,
                         int64_t caches) {
    if (!given(t)) return;
    need(integers, op, name, "be left out where key is not a quantized cache", {}, nullptr);
    if (caches == 2)
      need(t->dim() > 0 && t->sym_size(0) == 2, op, name, "have 2 in dimension 0, one for each cache", {}, &*t);
    const c10::SymInt count = t->sym_numel() / caches;
    const auto counts = [&](const c10::SymInt& wanted) { need_elements(op, name, t, {caches, wanted * caches}); };
    if (mode == 0) return counts(width * kv_heads);
    if (mode == 2) return counts(kv_heads);
    if (count == 1 || (mode != 1 && mode != 3)) return;
    const c10::SymInt each = t->sym_size(-1), of = mode == 3 ? batch * kv_heads : batch;
    need(each.sym_ge(own).sym_and(count.sym_eq(each * of).sym_or(c10::SymBool(mode == 1 && count == each))), op, name,
         mode == 3 ? "have a number for each of % keys of each head and sequence"
                   : "have a number for each of % keys of each sequence",
         {own}, &*t);
  };
  for (const auto& [name, mode] : {std::pair{named("key_antiquant_mode", "key_quant_mode"), scales.key_mode},
                                   {named("value_antiquant_mode", "value_quant_mode"), scales.value_mode},
                                   {"antiquant_mode", scales.both_mode}}) {
    check_number(op, name, mode, {0, 1, 2, 3, 4, 5, 6});
  }
  cache(named("key_antiquant_scale", "dequant_scale_key"), scales.key, scales.key_mode, columns, 1);
  cache(named("key_antiquant_offset", "dequant_offset_key"), scales.key_offset, scales.key_mode, columns, 1);
  cache(named("value_antiquant_scale", "dequant_scale_value"), scales.value, scales.value_mode, of_value, 1);
  cache(named("value_antiquant_offset", "dequant_offset_value"), scales.value_offset, scales.value_mode, of_value, 1);
  cache("antiquant_scale", scales.both, scales.both_mode, columns, 2);
  cache("antiquant_offset", scales.both_offset, scales.both_mode, columns, 2);
  need(!integers || given(scales.both) || (given(scales.key) && given(scales.value)), op,
       named("antiquant_scale, or key_antiquant_scale and value_antiquant_scale,",
             "dequant_scale_key and dequant_scale_value"),
       "be given where key is a quantized cache", {}, nullptr);
  need(given(scales.key) == given(scales.value), op, named("key_antiquant_scale", "dequant_scale_key"),
       "go together with that of value; give both or none", {}, nullptr);
  need(integers || (scales.key_mode == 0 && scales.value_mode == 0 && scales.both_mode == 0), op,
       named("key_antiquant_mode, value_antiquant_mode and antiquant_mode", "key_quant_mode and value_quant_mode"),
       "be 0 where key is not a quantized cache", {}, nullptr);
  check_number(op, "inner_precise", more.inner_precise, {0, 1, 2, 3});
}

static void check_call(const InferenceCall& c, const OptionalTensor& padding_mask) {
  check_inference(c.op, c.query, c.key, c.value, c.shape, c.table, padding_mask);
  check_lengths(c.op, c.query, c.shape, c.table, c.of_query, c.of_key, c.key);
  check_number(c.op, "sparse_mode", c.sparse_mode, {0, 1, 2, 3, 4});
}

void check_inference_call(const InferenceCall& call, const InferenceMore& more, const CacheScales& scales,
                          Decodes decodes, const OptionalTensor& padding_mask,
                          std::initializer_list<NamedTensor> refused) {
  // One row a sequence comes back as it lies, and of packed sequences there is no argument for the ends of the queries.
  if (decodes == Decodes::kAlways) {
    check_word(call.op, "input_layout", call.shape.layout, {"BSH", "BSND", "BNSD", "NSD"});
  }
  check_call(call, padding_mask);
  refuse_given(call.op, refused);
  check_operands(call, more, scales, decodes);
}

void check_inference_v2(const InferenceCall& call, const InferenceMore& more, const CacheScales& cache_scales,
                        const InferenceScales& scales, const InferenceTypes& types,
                        const InferenceScaleTypes& scale_types, const std::optional<int64_t>& out_type,
                        int64_t query_quant_mode) {
  const char* const kOp = call.op;
  check_call(call, {});
  check_number(kOp, "query_quant_mode", query_quant_mode, {0});
  refuse_given(kOp, "dequant_scale_query", scales.query);
  refuse_given(kOp, "dequant_scale_key_rope", scales.key_rope);
  refuse_given(kOp, "quant_scale_p", scales.softmax);
  check_dtypes(kOp, {{"query_dtype", types.query, call.query},
                     {"key_dtype", types.key, call.key, Reading::kPacked},
                     {"value_dtype", types.value, call.value, Reading::kPacked},
                     {"query_rope_dtype", types.query_rope, more.q_rope},
                     {"key_rope_dtype", types.key_rope, more.k_rope},
                     {"dequant_scale_query_dtype", scale_types.query, scales.query},
                     {"dequant_scale_key_dtype", scale_types.key, scales.key},
                     {"dequant_scale_value_dtype", scale_types.value, scales.value},
                     {"dequant_scale_key_rope_dtype", scale_types.key_rope, scales.key_rope}});
  refuse_given(kOp, "key_shared_prefix_dtype", types.key_prefix);
  refuse_given(kOp, "value_shared_prefix_dtype", types.value_prefix);
  check_result_type(kOp, "out_dtype", out_type, given(scales.out) ? at::kChar : call.query.scalar_type());
  check_operands(call, more, cache_scales, Decodes::kOneRow);
}

void check_inference_output(const at::Tensor& query, const at::Tensor& value, const std::optional<int64_t>& query_type,
                            const std::optional<int64_t>& value_type, const OptionalTensor& out_scale,
                            const std::optional<int64_t>& out_type) {
  constexpr const char* kOp = "_npu_fused_infer_attention_score_v2_infer_output";
  check_dtypes(kOp, {{"query_dtype", query_type, query}, {"value_dtype", value_type, value, Reading::kPacked}});
  check_result_type(kOp, "out_dtype", out_type, given(out_scale) ? at::kChar : query.scalar_type());
}

}  // namespace npu::ops
