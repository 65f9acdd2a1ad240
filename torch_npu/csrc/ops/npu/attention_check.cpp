// What is asked of a call of the flash attention family before it is queued: numbers, and how the optional operands fit the sequences.
// What it is not: sizes of query, key and value (attention_sizes).
#include <algorithm>

#include "csrc/ops/npu/attention.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {
namespace {

constexpr const char* kOp = "attention";
constexpr int64_t kNoMask = 1, kPrefix = 5, kPrefixCompressed = 6, kPackedRight = 7, kPackedLeft = 8;

struct Sequences {
  int64_t count, queries, keys;  // queries and keys of the longest
};

constexpr const char* kEndsNeeded =
    "attention: the layout TND needs actual_seq_qlen and actual_seq_kvlen, the ends of each sequence";

void check_ends(const AttentionCall& c) {
  TORCH_CHECK(c.q_ends && c.kv_ends && c.q_ends->size() == c.kv_ends->size() && !c.q_ends->empty(), kEndsNeeded);
  for (size_t i = 0; i < c.q_ends->size(); ++i) {
    const int64_t q = (*c.q_ends)[i] - (i ? (*c.q_ends)[i - 1] : 0),
                  kv = (*c.kv_ends)[i] - (i ? (*c.kv_ends)[i - 1] : 0);
    TORCH_CHECK(q >= 0 && kv >= 0, "attention: the ends of sequences decrease at ", i, ": they are running sums");
  }
  TORCH_CHECK(c.q_ends->back() == c.query.size(0) && c.kv_ends->back() == c.key.size(0),
              "attention: the sequences end at ", c.q_ends->back(), " and ", c.kv_ends->back(), ", query and key at ",
              c.query.size(0), " and ", c.key.size(0));
}

int64_t longest(at::IntArrayRef ends) {
  int64_t found = ends.front();
  for (size_t i = 1; i < ends.size(); ++i) found = std::max(found, ends[i] - ends[i - 1]);
  return found;
}

Sequences sequences(const AttentionCall& c, const AttentionSizes& s) {
  if (c.packed()) return {static_cast<int64_t>(c.q_ends->size()), longest(*c.q_ends), longest(*c.kv_ends)};
  return {s.batch.expect_int(), s.queries.expect_int(), s.keys.expect_int()};
}

void check_numbers(const AttentionCall& c) {
  TORCH_CHECK_VALUE(c.keep_prob > 0 && c.keep_prob <= 1, "attention: keep_prob is ", c.keep_prob, ", not in (0, 1]");
  TORCH_CHECK_VALUE(c.sparse_mode >= 0 && c.sparse_mode <= 8, "attention: sparse_mode is ", c.sparse_mode,
                    ", not 0 to 8");
  TORCH_CHECK_VALUE(c.packed() || (c.sparse_mode != kPackedRight && c.sparse_mode != kPackedLeft),
                    "attention: sparse_mode ", c.sparse_mode, " is for the layout TND, not ", c.layout);
  for (const auto& [name, ends] : {std::pair{"actual_seq_qlen", c.q_ends}, {"actual_seq_kvlen", c.kv_ends}}) {
    TORCH_CHECK_VALUE(c.packed() || !ends || ends->empty(), "attention: ", name, " goes with the layout TND, not ",
                      c.layout, ", where all rows count; leave it out");
  }
  check_number(kOp, "inner_precise", c.inner_precise, {0, 1, 2, 3});
  TORCH_CHECK_VALUE(c.pse_type >= 0 && c.pse_type <= 3, "attention: pse_type is ", c.pse_type, ", not 0 to 3");
}

// A matrix of scores for each sequence and head, or one for several: [queries, keys] last, at least as large as the longest
// sequence; before them heads and sequences, or 1.
void check_matrix(const char* name, const at::Tensor& t, const AttentionCall& c, const Sequences& of, bool one_row) {
  need_dims(kOp, name, t, {2, 3, 4});
  const int64_t rows = t.size(-2), columns = t.size(-1), heads = t.dim() > 2 ? t.size(-3) : 1;
  TORCH_CHECK((rows >= of.queries || (one_row && rows == 1)) && columns >= of.keys, "attention: ", name, " of ", rows,
              " x ", columns, " for ", of.queries, " queries and ", of.keys, " keys");
  TORCH_CHECK(heads == 1 || heads == c.heads, "attention: ", name, " is for ", heads, " heads, head_num is ", c.heads);
  TORCH_CHECK(t.dim() < 4 || t.size(0) == 1 || t.size(0) == of.count, "attention: ", name, " is for ", t.size(0),
              " sequences, of which there are ", of.count);
}

bool same_lengths(const AttentionCall& c) { return c.packed() && c.q_ends->equals(*c.kv_ends); }

void check_pse(const AttentionCall& c, const Sequences& of) {
  TORCH_CHECK_VALUE(
      !given(c.pse) || (c.sparse_mode != kPackedRight && (c.sparse_mode != kPackedLeft || same_lengths(c))),
      "attention: pse does not go with sparse_mode ", c.sparse_mode,
      c.sparse_mode == kPackedLeft ? ", unless each sequence has as many queries as keys" : "");
  const bool slopes = c.pse_type >= 2;
  TORCH_CHECK(given(c.pse) || !slopes, "attention: pse_type ", c.pse_type, " needs pse, a slope for each head");
  if (!given(c.pse)) return;
  if (!slopes) return check_matrix("pse", *c.pse, c, of, true);
  need_dims(kOp, "pse", *c.pse, {1, 2});
  TORCH_CHECK(c.pse->size(-1) == c.heads, "attention: pse has ", c.pse->size(-1), " slopes, head_num is ", c.heads);
  TORCH_CHECK(c.pse->dim() == 1 || c.pse->size(0) == 1 || c.pse->size(0) == of.count, "attention: pse is for ",
              c.pse->size(0), " sequences, of which there are ", of.count);
}

void check_mask(const AttentionCall& c, const Sequences& of) {
  need_type(kOp, "atten_mask", c.atten_mask, {at::kBool, at::kByte});
  TORCH_CHECK(given(c.atten_mask) || c.sparse_mode != kNoMask, "attention: sparse_mode 1 needs atten_mask");
  if (!given(c.atten_mask)) return;
  if (c.sparse_mode <= kNoMask) check_matrix("atten_mask", *c.atten_mask, c, of, false);
  check_compressed_mask(kOp, *c.atten_mask, c.sparse_mode);
}

void check_prefix(const AttentionCall& c, const Sequences& of) {
  if (c.sparse_mode != kPrefix && c.sparse_mode != kPrefixCompressed) return;
  TORCH_CHECK(c.prefix && static_cast<int64_t>(c.prefix->size()) == of.count, "attention: sparse_mode ", c.sparse_mode,
              " needs a prefix for each of ", of.count, " sequences, not ", c.prefix ? c.prefix->size() : 0);
  for (const int64_t keys : *c.prefix) {
    TORCH_CHECK_VALUE(keys >= 0 && keys <= of.keys, "attention: a prefix of ", keys, " keys, of which there are ",
                      of.keys);
  }
}

void check_rope(const AttentionCall& c, const AttentionSizes& s) {
  TORCH_CHECK(given(c.query_rope) == given(c.key_rope), "attention: query_rope and key_rope go together");
  if (!given(c.query_rope)) return;
  const at::Tensor &q = *c.query_rope, &k = *c.key_rope;
  need_sizes(kOp, "query_rope", q, with_size(c.query, -1, -1));
  need_sizes(kOp, "key_rope", k, with_size(c.key, -1, -1));
  need_same_type(kOp, "query", c.query, "query_rope", q);
  need_same_type(kOp, "query", c.query, "key_rope", k);
  const bool joined = c.layout == "BSH" || c.layout == "SBH";
  const int64_t q_heads = joined ? c.heads : 1, k_heads = joined ? s.kv_heads.expect_int() : 1;
  TORCH_CHECK(q.size(-1) % q_heads == 0 && k.size(-1) % k_heads == 0 && q.size(-1) / q_heads == k.size(-1) / k_heads,
              "attention: query_rope of ", q.sizes(), " and key_rope of ", k.sizes(), " have other columns a head");
}

// Sizes that are not known yet are asked at the run of what is traced.
bool symbolic(const AttentionCall& c) {
  const auto unknown = [](const at::Tensor& t) {
    return t.defined() && t.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  };
  const auto unknown_option = [&](const OptionalTensor& t) { return given(t) && unknown(*t); };
  return unknown(c.query) || unknown(c.key) || unknown(c.value) || unknown_option(c.pse) ||
         unknown_option(c.atten_mask) || unknown_option(c.query_rope) || unknown_option(c.key_rope);
}

}  // namespace

void check_compressed_mask(const char* op, const at::Tensor& mask, int64_t sparse_mode) {
  if (sparse_mode < 2 || sparse_mode > 4) return;
  bool fits = mask.dim() >= 2;
  for (int64_t d = 0; d < mask.dim(); ++d) fits = fits && mask.sym_size(d) == (d < mask.dim() - 2 ? 1 : kCompressed);
  TORCH_CHECK(
      fits, op, ": atten_mask of ", mask.sym_sizes(), " with sparse_mode ", sparse_mode,
      ", which takes the triangle [2048, 2048], True above the diagonal, and hides nothing else; for a mask of ",
      "your own use sparse_mode 0 or 1");
}

void check_attention(const AttentionCall& c, bool lengths_known) {
  if (symbolic(c)) return;
  check_numbers(c);
  TORCH_CHECK_NOT_IMPLEMENTED(!given(c.padding_mask), "attention: padding_mask is not implemented; give atten_mask");
  TORCH_CHECK_NOT_IMPLEMENTED(c.softmax_layout.empty() || (c.packed() && c.softmax_layout == "same_as_input"),
                              "attention: the softmax_layout ", c.softmax_layout, " is not implemented");
  if (c.packed() && lengths_known) check_ends(c);
  const AttentionSizes s = attention_sizes(c.query, c.key, c.value, c.heads, c.layout);
  check_rope(c, s);
  need_sizes(kOp, "sink", c.sink, {c10::SymInt(c.heads)});
  if (c.packed() && !lengths_known) return;
  const Sequences of = sequences(c, s);
  check_pse(c, of);
  check_mask(c, of);
  check_prefix(c, of);
}

void check_ends_v3(std::string_view layout, const OptionalTensor& q_ends, const OptionalTensor& kv_ends) {
  if (layout != "TND") return;
  TORCH_CHECK(given(q_ends) && given(kv_ends), kEndsNeeded);
  TORCH_SYM_CHECK(q_ends->sym_numel().sym_eq(kv_ends->sym_numel()).sym_and(q_ends->sym_numel().sym_gt(0)), kEndsNeeded);
}

void check_attention_v3(AttentionCall call, at::OptionalSymIntArrayRef prefix) {
  const auto known = prefix ? c10::asIntArrayRefSlowOpt(*prefix) : std::nullopt;
  if (prefix && !known) return;
  if (known) call.prefix = *known;
  check_attention(call, false);
}

void check_attention_gradient(const char* op, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                              int64_t heads, std::string_view layout, const AttentionSaved& saved) {
  const AttentionSizes s = attention_sizes(query, key, value, heads, layout);
  need_sizes(op, "dy", saved.gradient, s.out);
  need_sizes(op, "attention_in", saved.out, s.out);
  need_sizes(op, "softmax_max", saved.maximum, s.statistic);
  need_sizes(op, "softmax_sum", saved.sum, s.statistic);
}

// CANN's format, eight weights a byte, or a bool a weight.
void check_drop_mask(const OptionalTensor& mask, int64_t weights) {
  need_type(kOp, "dropout_mask", mask, {at::kBool, at::kByte, at::kChar});
  if (!given(mask)) return;
  const int64_t has = mask->numel() * (mask->scalar_type() == at::kBool ? 1 : 8);
  TORCH_CHECK(has >= weights, "attention: dropout_mask is for ", has, " weights, of which there are ", weights);
}

}  // namespace npu::ops
