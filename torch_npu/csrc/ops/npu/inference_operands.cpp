// Attention of inference: checks of everything that goes with query, key and value, see sizes.h. One function an argument, or a few that go together.
#include <algorithm>
#include <sstream>

#include "csrc/core/type_name.h"
#include "csrc/ops/npu/inference_layout.h"

namespace npu::ops {

using namespace inference;

namespace {

// One place makes the messages: each list of types that TORCH_CHECK is given is code of its own. `%` is the next number.
[[gnu::noinline]] void need(const c10::SymBool& holds, const char* op, const char* name, const char* must,
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

// A call with what its sizes say.
struct Facts {
  Facts(const InferenceCall& c, const InferenceMore& more) : c(c), more(more) {}

  const InferenceCall& c;
  const InferenceMore& more;
  const char* const op = c.op;
  const std::string_view layout = operand_layout(c.shape.layout);
  const bool packed = is_packed(layout), joined = layout == "BSH", paged = given(c.table);
  const int64_t heads = c.shape.heads, kv_heads = c.shape.kv_heads ? c.shape.kv_heads : heads;
  const QuerySizes q = query_sizes(c.query, layout, heads);
  const c10::SymInt batch = packed && c.of_query ? c10::SymInt(static_cast<int64_t>(c.of_query->size())) : q.batch;
  const c10::SymInt columns = joined ? c.query.sym_size(2) / heads : c.query.sym_size(-1);
  const c10::SymInt of_value = value_columns(c.value, layout, c.table, kv_heads);
  // A quantized cache; of int8 beside a query of int8 all products have scales of their own.
  const bool integers = at::isIntegralType(c.key.scalar_type(), false) && at::isFloatingType(c.query.scalar_type());

  // The second version calls some arguments otherwise.
  const char* named(const char* first, const char* of_second) const {
    return std::string_view(op).ends_with("_v2") ? of_second : first;
  }
  // The longest sequence of those that have lengths.
  c10::SymInt longest(at::OptionalIntArrayRef lengths, bool ends, const c10::SymInt& all) const {
    if (!lengths || lengths->empty()) return all;
    int64_t found = 0, last = 0;
    for (const int64_t length : first_lengths(*lengths, batch)) {
      found = std::max(found, length - last);
      if (ends) last = length;
    }
    return found;
  }
  c10::SymInt rows() const { return longest(c.of_query, packed, q.rows); }
  c10::SymInt own_keys() const {
    return longest(c.of_key, packed && !paged, paged ? c10::SymInt(0) : query_sizes(c.key, layout, 0).rows);
  }
};

void check_columns(const Facts& f, Decodes decodes) {
  const InferenceCall& c = f.c;
  const c10::SymInt has = value_columns(c.key, f.layout, c.table, f.kv_heads);
  need(has.sym_eq(f.columns), f.op, "key", "have the % columns of a head of query, not %", {f.columns, has}, &c.key);
  const bool joined_cache = f.paged ? c.key.dim() == 3 : f.joined;
  for (const at::Tensor* t : {&c.key, &c.value}) {
    need(c10::SymBool(!joined_cache).sym_or((t->sym_size(-1) % f.kv_heads).sym_eq(0)), f.op,
         t == &c.key ? "key" : "value", "have columns of % heads", {f.kv_heads}, t);
  }
  need(c10::SymBool(decodes != Decodes::kAlways).sym_or(f.of_value.sym_eq(f.columns)), f.op, "value",
       "have the % columns of a head of query", {f.columns}, &c.value);
}

void check_result_scales(const Facts& f) {
  const char *const scale = f.named("quant_scale2", "quant_scale_out"), *const offset = f.named("quant_offset2",
                                                                                                "quant_offset_out");
  const InferenceMore& more = f.more;
  need_elements(f.op, scale, more.out_scale, {1, f.of_value, f.of_value * f.heads});
  need_elements(f.op, offset, more.out_offset, {1, f.of_value, f.of_value * f.heads});
  need(given(more.out_scale) || !given(more.out_offset), f.op, offset, "go with a scale, which is not given", {},
       nullptr);
}

void check_rope(const Facts& f) {
  need(given(f.more.q_rope) == given(f.more.k_rope), f.op, "query_rope", "go together with key_rope; give both or none",
       {}, nullptr);
  if (!given(f.more.q_rope)) return;
  need_sizes(f.op, "query_rope", f.more.q_rope, with_size(f.c.query, -1, -1));
  if (!f.paged) need_sizes(f.op, "key_rope", f.more.k_rope, with_size(f.c.key, -1, -1));
}

// How many keys of a prefix, which is one sequence for all, come before those of each sequence.
c10::SymInt check_prefix(const Facts& f) {
  const InferenceMore& more = f.more;
  need(given(more.k_prefix) == given(more.v_prefix), f.op, "key_shared_prefix",
       "go together with value_shared_prefix; give both or none", {}, nullptr);
  const bool counted = more.prefix_length && !more.prefix_length->empty();
  if (!given(more.k_prefix)) {
    need(!counted, f.op, "actual_shared_prefix_len", "go with key_shared_prefix, which is not given", {}, nullptr);
    return 0;
  }
  need(!f.packed, f.op, "key_shared_prefix", "be left out with packed sequences", {}, nullptr);
  need_dims(f.op, "key_shared_prefix", *more.k_prefix, {f.c.query.dim()});
  const c10::SymInt rows = query_sizes(*more.k_prefix, f.layout, 0).rows;
  const auto prefix = [&](const char* name, const at::Tensor& t, const at::Tensor& of) {
    Sizes sizes = sizes_of(of);
    sizes[f.layout == "BNSD" ? 2 : 1] = rows;
    sizes[0] = 1;
    need_dims(f.op, name, t, {of.dim()});
    need_sizes(f.op, name, t, sizes);
  };
  if (!f.paged) prefix("key_shared_prefix", *more.k_prefix, f.c.key);
  if (!f.paged) prefix("value_shared_prefix", *more.v_prefix, f.c.value);
  if (!counted) return rows;
  const c10::SymInt length = more.prefix_length->front();
  need(length.sym_ge(0).sym_and(length.sym_le(rows)), f.op, "actual_shared_prefix_len",
       "be 0 to %, the rows of key_shared_prefix, not %", {rows, length}, nullptr);
  return length;
}

void check_pages(const Facts& f, const c10::SymInt& own) {
  if (!f.paged) return;
  const InferenceCall& c = f.c;
  const bool same = c.value.dim() == c.key.dim() && c.value.sym_size(0) == c.key.sym_size(0);
  need(same && c.value.sym_size(1) == c.key.sym_size(1), f.op, "value", "have as many blocks as key, as large ones", {},
       &c.value);
  const bool rows_first = c.key.dim() == 4 && c.key.sym_size(1) != f.kv_heads && c.key.sym_size(2) == f.kv_heads;
  const c10::SymInt block = c.key.sym_size(c.key.dim() == 5 ? 3 : c.key.dim() == 3 || rows_first ? 1 : 2);
  need(c10::SymBool(f.more.block_size == 0).sym_or(block.sym_eq(f.more.block_size)), f.op, "block_size",
       "be the % rows that a block of key has, not %", {block, f.more.block_size}, nullptr);
  need((c.table->sym_size(1) * block).sym_ge(own), f.op, "block_table", "name blocks of % rows for % keys in each row",
       {block, own}, &*c.table);
  need(!f.packed || !c.of_query || c.table->sym_size(0) == static_cast<int64_t>(c.of_query->size()), f.op,
       "block_table", "have a row for each sequence", {}, &*c.table);
}

// A matrix [least, keys] or larger, for each head and sequence or for several; with `row` one row may do for all.
struct Matrix {
  c10::SymInt least, keys;
  bool row;
};
void check_matrix(const Facts& f, const char* name, const at::Tensor& t, const Matrix& m) {
  need_dims(f.op, name, t, {2, 3, 4});
  need(t.sym_size(-1).sym_ge(m.keys).sym_and(
           t.sym_size(-2).sym_ge(m.least).sym_or(c10::SymBool(m.row && t.sym_size(-2) == 1))),
       f.op, name, "have % rows and % columns or more", {m.least, m.keys}, &t);
  if (t.dim() == 4) {
    need(t.sym_size(0).sym_eq(1).sym_or(t.sym_size(0).sym_eq(f.batch)), f.op, name, "be for 1 or % sequences",
         {f.batch}, &t);
  }
}

void check_shift(const Facts& f, const c10::SymInt& rows, const c10::SymInt& keys) {
  if (!given(f.more.shift)) return;
  const at::Tensor& shift = *f.more.shift;
  check_matrix(f, "pse_shift", shift, {rows, keys, true});
  const c10::SymInt of = shift.dim() > 2 ? shift.sym_size(-3) : c10::SymInt(1);
  need(of.sym_eq(1).sym_or(of.sym_eq(f.heads)), f.op, "pse_shift", "be for 1 or % heads", {f.heads}, &shift);
}

// `by_batch`: a mask of two dimensions is one row a sequence.
void check_mask(const Facts& f, const c10::SymInt& rows, const c10::SymInt& keys, bool by_batch) {
  const int64_t mode = f.c.sparse_mode;
  TORCH_CHECK(given(f.more.mask) || mode == 0, f.op, ": sparse_mode ", mode, " needs atten_mask",
              mode == 1 ? "" : ", the triangle [2048, 2048], True above its diagonal",
              "; without one all keys are seen by sparse_mode 0");
  if (!given(f.more.mask)) return;
  const at::Tensor& mask = *f.more.mask;
  check_compressed_mask(f.op, mask, mode);
  if (mode > 1) return;
  const bool row_each = by_batch && mask.dim() == 2;
  check_matrix(f, "atten_mask", mask, {row_each ? c10::SymInt(1) : rows, keys, false});
  const c10::SymInt of = mask.sym_size(0);
  need(c10::SymBool(!row_each && mask.dim() == 2).sym_or(of.sym_eq(1)).sym_or(of.sym_eq(f.batch)), f.op, "atten_mask",
       "be for 1 or % sequences", {f.batch}, &mask);
}

// Numbers of a quantized cache, or with `caches` 2 of both in one tensor.
struct CacheNumbers {
  const char* name;
  const OptionalTensor& tensor;
  int64_t mode;
  const c10::SymInt& width;
  int64_t caches;
};
void check_cache_numbers(const Facts& f, const CacheNumbers& n, const c10::SymInt& own) {
  if (!given(n.tensor)) return;
  const at::Tensor& t = *n.tensor;
  need(f.integers, f.op, n.name, "be left out where key is not a quantized cache", {}, nullptr);
  need(t.scalar_type() != at::kFloat8_e8m0fnu && n.mode != 6, f.op, n.name,
       "be numbers, and its mode not 6: powers of two go with a cache of 4-bit floats, which is not implemented", {},
       nullptr);
  if (n.caches == 2) {
    need(t.dim() > 0 && t.sym_size(0) == 2, f.op, n.name, "have 2 in dimension 0, one for each cache", {}, &t);
  }
  const c10::SymInt count = t.sym_numel() / n.caches;
  const auto counts = [&](const c10::SymInt& wanted) {
    need_elements(f.op, n.name, n.tensor, {n.caches, wanted * n.caches});
  };
  if (n.mode == 0) return counts(n.width * f.kv_heads);
  if (n.mode == 2) return counts(f.kv_heads);
  if (count == 1 || (n.mode != 1 && n.mode != 3)) return;
  const c10::SymInt each = t.sym_size(-1), of = n.mode == 3 ? f.batch * f.kv_heads : f.batch;
  need(each.sym_ge(own).sym_and(count.sym_eq(each * of).sym_or(c10::SymBool(n.mode == 1 && count == each))), f.op,
       n.name,
       n.mode == 3 ? "have a number for each of % keys of each head and sequence"
                   : "have a number for each of % keys of each sequence",
       {own}, &t);
}

void check_cache_scales(const Facts& f, const CacheScales& s, const c10::SymInt& own) {
  for (const auto& [name, mode] : {std::pair{f.named("key_antiquant_mode", "key_quant_mode"), s.key_mode},
                                   {f.named("value_antiquant_mode", "value_quant_mode"), s.value_mode},
                                   {"antiquant_mode", s.both_mode}}) {
    check_number(f.op, name, mode, {0, 1, 2, 3, 4, 5, 6});
  }
  const char* const key = f.named("key_antiquant_scale", "dequant_scale_key");
  for (const CacheNumbers& n : {
           CacheNumbers{key, s.key, s.key_mode, f.columns, 1},
           {f.named("key_antiquant_offset", "dequant_offset_key"), s.key_offset, s.key_mode, f.columns, 1},
           {f.named("value_antiquant_scale", "dequant_scale_value"), s.value, s.value_mode, f.of_value, 1},
           {f.named("value_antiquant_offset", "dequant_offset_value"), s.value_offset, s.value_mode, f.of_value, 1},
           {"antiquant_scale", s.both, s.both_mode, f.columns, 2},
           {"antiquant_offset", s.both_offset, s.both_mode, f.columns, 2},
       }) {
    check_cache_numbers(f, n, own);
  }
  need(!f.integers || given(s.both) || (given(s.key) && given(s.value)), f.op,
       f.named("antiquant_scale, or key_antiquant_scale and value_antiquant_scale,",
               "dequant_scale_key and dequant_scale_value"),
       "be given where key is a quantized cache", {}, nullptr);
  need(given(s.key) == given(s.value), f.op, key, "go together with that of value; give both or none", {}, nullptr);
  need(f.integers || (s.key_mode == 0 && s.value_mode == 0 && s.both_mode == 0), f.op,
       f.named("key_antiquant_mode, value_antiquant_mode and antiquant_mode", "key_quant_mode and value_quant_mode"),
       "be 0 where key is not a quantized cache", {}, nullptr);
}

void check_more(const InferenceCall& c, const InferenceMore& more, const CacheScales& scales, Decodes decodes) {
  const Facts f(c, more);
  check_columns(f, decodes);
  need_elements(f.op, "query_padding_size", more.q_padding, {1});
  need_elements(f.op, "kv_padding_size", more.kv_padding, {1});
  need_sizes(f.op, "learnable_sink", more.sink, {f.heads});
  check_result_scales(f);
  check_rope(f);
  const bool one_row = decodes == Decodes::kOneRow && !f.packed && f.layout != "NSD" && f.q.rows == 1;
  // Lengths of queries of one row are not read.
  const c10::SymInt rows = one_row ? c10::SymInt(1) : f.rows();
  const c10::SymInt before = check_prefix(f), own = f.own_keys(), keys = own + before;
  check_pages(f, own);
  need(c10::SymBool(decodes != Decodes::kAlways).sym_or(f.q.rows.sym_eq(1)), f.op, "query", "have one row a sequence",
       {}, &c.query);
  check_shift(f, rows, keys);
  check_mask(f, rows, keys, decodes == Decodes::kAlways || one_row);
  check_cache_scales(f, scales, own);
  check_number(f.op, "inner_precise", more.inner_precise, {0, 1, 2, 3});
}

// Of operators that have no scales of int8 products.
void need_floating_query(const InferenceCall& c) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(c.query.scalar_type()), c.op, ": a query of ", type_name(c.query),
                              " is not implemented");
}

void check_call(const InferenceCall& c, Decodes decodes, const OptionalTensor& padding_mask) {
  check_inference(c.op, c.query, c.key, c.value, c.shape, c.table, padding_mask);
  check_lengths(c.op, c.query, c.shape, c.table, c.of_query, c.of_key, c.key, decodes == Decodes::kOneRow);
  check_number(c.op, "sparse_mode", c.sparse_mode, {0, 1, 2, 3, 4});
}

}  // namespace

void check_inference_call(const InferenceCall& call, const InferenceMore& more, const CacheScales& scales,
                          Decodes decodes, const OptionalTensor& padding_mask,
                          std::initializer_list<NamedTensor> refused) {
  // One row a sequence comes back as it lies, and of packed sequences there is no argument for the ends of the queries.
  if (decodes == Decodes::kAlways) {
    need_floating_query(call);
    check_word(call.op, "input_layout", call.shape.layout, {"BSH", "BSND", "BNSD", "NSD"});
  }
  check_call(call, decodes, padding_mask);
  refuse_given(call.op, refused);
  check_more(call, more, scales, decodes);
}

void check_inference_v2(const InferenceCall& call, const InferenceMore& more, const CacheScales& cache_scales,
                        const InferenceScales& scales, const InferenceTypes& types,
                        const InferenceScaleTypes& scale_types, const std::optional<int64_t>& out_type,
                        int64_t query_quant_mode) {
  const char* const kOp = call.op;
  need_floating_query(call);
  check_call(call, Decodes::kOneRow, {});
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
  check_more(call, more, cache_scales, Decodes::kOneRow);
}

void check_inference_output(const at::Tensor& query, const at::Tensor& value, const std::optional<int64_t>& query_type,
                            const std::optional<int64_t>& value_type, const OptionalTensor& out_scale,
                            const std::optional<int64_t>& out_type) {
  constexpr const char* kOp = "_npu_fused_infer_attention_score_v2_infer_output";
  check_dtypes(kOp, {{"query_dtype", query_type, query}, {"value_dtype", value_type, value, Reading::kPacked}});
  check_result_type(kOp, "out_dtype", out_type, given(out_scale) ? at::kChar : query.scalar_type());
}

}  // namespace npu::ops
