// See attention.h.
#include "csrc/ops/npu/attention.h"

#include "csrc/core/empty.h"
#include "csrc/core/type_name.h"
#include "csrc/ops/aclnn_call.h"

namespace npu::ops {
namespace {

// The version of CANN's function, forward and backward alike: the first that takes all that is given.
enum class Version { kPacked, kPackedV2, kPackedV5, kFirst, kV2, kV3, kV4 };
Version version_of(const AttentionCall& c) {
  const bool newer = c.pse_type != 1 || c.q_start || c.kv_start;  // parameters that came with the second version
  const bool rope = given(c.query_rope), sink = given(c.sink);
  if (c.packed()) {
    if (rope || sink || !c.softmax_layout.empty()) return Version::kPackedV5;
    return newer ? Version::kPackedV2 : Version::kPacked;
  }
  if (rope) return Version::kV4;
  if (sink) return Version::kV3;
  return newer ? Version::kV2 : Version::kFirst;
}

at::Tensor empty_or_like(const OptionalTensor& model) {
  return given(model) ? npu::empty(model->sizes(), model->scalar_type()) : npu::empty({0}, at::kFloat);
}

at::Tensor plain_like(const at::Tensor& model) { return npu::empty(model.sizes(), model.scalar_type()); }

const at::Tensor& or_none(const at::Tensor& tensor, bool wanted) {
  static const at::Tensor none;
  return wanted ? tensor : none;
}

}  // namespace

AttentionSizes attention_sizes(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t heads,
                               std::string_view layout) {
  const bool joined = layout == "BSH" || layout == "SBH", packed = layout == "TND";
  TORCH_CHECK_VALUE(joined || packed || layout == "BNSD" || layout == "BSND",
                    "attention: input_layout is one of BSH, SBH, BNSD, BSND and TND, not ", layout);
  const int64_t dims = joined || packed ? 3 : 4;
  for (const at::Tensor* t : {&query, &key, &value}) {
    TORCH_CHECK(t->dim() == dims, "attention: query, key and value have ", dims, " dimensions in the layout ", layout,
                ", not ", t->dim());
  }
  TORCH_CHECK(query.scalar_type() == key.scalar_type() && query.scalar_type() == value.scalar_type(),
              "attention: query, key and value have the types ", type_name(query), ", ", type_name(key), " and ",
              type_name(value), "; they must be the same");
  TORCH_CHECK_VALUE(heads > 0, "attention: head_num is ", heads);
  const int64_t batch = layout == "SBH" ? 1 : 0, row = layout == "SBH" || packed ? 0 : layout == "BNSD" ? 2 : 1;
  AttentionSizes s;
  s.batch = packed ? c10::SymInt(1) : query.sym_size(batch);
  s.queries = query.sym_size(row);
  s.keys = key.sym_size(row);
  s.heads = heads;
  s.columns = joined ? query.sym_size(2) / heads : query.sym_size(-1);
  if (joined) {
    TORCH_SYM_CHECK((query.sym_size(2) % heads).sym_eq(0), "attention: head_num ", heads,
                    " does not divide the query's last ", "dimension, ", query.sym_size(2));
  } else {
    const int64_t head_dim = layout == "BNSD" ? 1 : dims - 2;
    TORCH_SYM_CHECK(query.sym_size(head_dim).sym_eq(heads), "attention: the query has ", query.sym_size(head_dim),
                    " heads, head_num is ", heads);
  }
  if (!packed) {
    for (const at::Tensor* t : {&key, &value}) {
      TORCH_SYM_CHECK(t->sym_size(batch).sym_eq(s.batch), "attention: batches of ", s.batch, " and ",
                      t->sym_size(batch));
    }
  }
  TORCH_SYM_CHECK(value.sym_size(row).sym_eq(s.keys), "attention: ", s.keys, " keys and ", value.sym_size(row),
                  " values");
  TORCH_SYM_CHECK(s.columns.sym_gt(0), "attention: a head of the query has no columns");
  if (joined) {
    TORCH_SYM_CHECK((key.sym_size(2) % s.columns).sym_eq(0), "attention: the key's last dimension, ", key.sym_size(2),
                    ", is no multiple of a head's columns, ", s.columns);
  }
  const c10::SymInt kv_heads = joined ? key.sym_size(2) / s.columns : key.sym_size(layout == "BNSD" ? 1 : dims - 2);
  TORCH_SYM_CHECK(kv_heads.sym_gt(0), "attention: the key has fewer columns than a head of the query, ", s.columns);
  TORCH_SYM_CHECK((s.heads % kv_heads).sym_eq(0), "attention: ", heads,
                  " heads of the query are no multiple of the key's ", kv_heads);
  if (joined) {
    TORCH_SYM_CHECK((value.sym_size(2) % kv_heads).sym_eq(0), "attention: the key has ", kv_heads,
                    " heads, which do not divide the value's last dimension, ", value.sym_size(2));
  } else {
    TORCH_SYM_CHECK(key.sym_size(-1).sym_eq(s.columns), "attention: query and key have ", s.columns, " and ",
                    key.sym_size(-1), " columns");
    const c10::SymInt value_heads = value.sym_size(layout == "BNSD" ? 1 : dims - 2);
    TORCH_SYM_CHECK(value_heads.sym_eq(kv_heads), "attention: the key has ", kv_heads, " heads and the value ",
                    value_heads);
  }
  s.kv_heads = kv_heads;
  s.out =
      joined ? with_size(query, -1, value.sym_size(2) / kv_heads * heads) : with_size(query, -1, value.sym_size(-1));
  s.statistic = packed ? Sizes{s.queries, s.heads, 8} : Sizes{s.batch, s.heads, s.queries, 8};
  return s;
}

int64_t attention_weights(const AttentionCall& c) {
  if (!c.packed()) {
    const AttentionSizes s = attention_sizes(c.query, c.key, c.value, c.heads, c.layout);
    return (s.batch * s.heads * s.queries * s.keys).expect_int();
  }
  int64_t weights = 0;
  for (size_t i = 0; i < c.q_ends->size(); ++i) {
    weights +=
        c.heads * ((*c.q_ends)[i] - (i ? (*c.q_ends)[i - 1] : 0)) * ((*c.kv_ends)[i] - (i ? (*c.kv_ends)[i - 1] : 0));
  }
  return weights;
}

at::Tensor drop_mask_like(int64_t weights) { return npu::empty({(weights + 127) / 128 * 16}, at::kByte); }

c10::SymInt drop_mask_bytes(const AttentionSizes& s, double keep_prob) {
  if (keep_prob == 1) return 0;
  return (s.batch * s.heads * s.queries * s.keys + 127) / 128 * 16;
}

AttentionResults attention_forward(const AttentionCall& c, const OptionalTensor& drop) {
  const AttentionSizes s = attention_sizes(c.query, c.key, c.value, c.heads, c.layout);
  AttentionResults r{on_device(sized(s.out, c.query.scalar_type())), on_device(sized(s.statistic, at::kFloat)),
                     on_device(sized(s.statistic, at::kFloat)), npu::empty({0}, c.query.scalar_type())};
  if (r.out.numel() == 0 && r.maximum.numel() == 0) return r;
  switch (version_of(c)) {
    case Version::kPackedV5:
      ACLNN(aclnnFlashAttentionVarLenScoreV5)
      (c.query, c.query_rope, c.key, c.key_rope, c.value, c.pse, drop, c.padding_mask, c.atten_mask, c.sink, c.prefix,
       c.q_ends, c.kv_ends, c.q_start, c.kv_start, c.scale, c.keep_prob, c.before, c.after, c.heads, c.layout,
       c.inner_precise, c.sparse_mode, c.pse_type, c.softmax_layout, r.maximum, r.sum, r.softmax, r.out);
      break;
    case Version::kPackedV2:
      ACLNN(aclnnFlashAttentionVarLenScoreV2)
      (c.query, c.key, c.value, c.pse, drop, c.padding_mask, c.atten_mask, c.prefix, c.q_ends, c.kv_ends, c.q_start,
       c.kv_start, c.scale, c.keep_prob, c.before, c.after, c.heads, c.layout, c.inner_precise, c.sparse_mode,
       c.pse_type, r.maximum, r.sum, r.softmax, r.out);
      break;
    case Version::kPacked:
      ACLNN(aclnnFlashAttentionVarLenScore)
      (c.query, c.key, c.value, c.pse, drop, c.padding_mask, c.atten_mask, c.prefix, c.q_ends, c.kv_ends, c.scale,
       c.keep_prob, c.before, c.after, c.heads, c.layout, c.inner_precise, c.sparse_mode, r.maximum, r.sum, r.softmax,
       r.out);
      break;
    case Version::kV4:
      ACLNN(aclnnFlashAttentionScoreV4)
      (c.query, c.key, c.value, c.pse, drop, c.padding_mask, c.atten_mask, c.query_rope, c.key_rope, nullptr, nullptr,
       nullptr, c.sink, c.prefix, c.q_ends, c.kv_ends, c.q_start, c.kv_start, c.scale, c.keep_prob, c.before, c.after,
       c.heads, c.layout, c.inner_precise, c.sparse_mode, 0, c.pse_type, c.softmax_layout, 0, 0, r.maximum, r.sum,
       r.softmax, r.out);
      break;
    case Version::kV3:
      ACLNN(aclnnFlashAttentionScoreV3)
      (c.query, c.key, c.value, c.pse, drop, c.padding_mask, c.atten_mask, c.sink, c.prefix, c.q_start, c.kv_start,
       c.scale, c.keep_prob, c.before, c.after, c.heads, c.layout, c.inner_precise, c.sparse_mode, c.pse_type,
       r.maximum, r.sum, r.softmax, r.out);
      break;
    case Version::kV2:
      ACLNN(aclnnFlashAttentionScoreV2)
      (c.query, c.key, c.value, c.pse, drop, c.padding_mask, c.atten_mask, c.prefix, c.q_start, c.kv_start, c.scale,
       c.keep_prob, c.before, c.after, c.heads, c.layout, c.inner_precise, c.sparse_mode, c.pse_type, r.maximum, r.sum,
       r.softmax, r.out);
      break;
    case Version::kFirst:
      ACLNN(aclnnFlashAttentionScore)
      (c.query, c.key, c.value, c.pse, drop, c.padding_mask, c.atten_mask, c.prefix, c.scale, c.keep_prob, c.before,
       c.after, c.heads, c.layout, c.inner_precise, c.sparse_mode, r.maximum, r.sum, r.softmax, r.out);
      break;
  }
  return r;
}

AttentionGradients attention_gradients(const AttentionCall& c) {
  return {plain_like(c.query),   plain_like(c.key),           plain_like(c.value),      empty_or_like(c.pse),
          empty_or_like(c.sink), empty_or_like(c.query_rope), empty_or_like(c.key_rope)};
}

void attention_backward(const AttentionCall& c, const AttentionSaved& f, const OptionalTensor& drop,
                        const AttentionGradients& g) {
  if (g.query.numel() == 0 && g.key.numel() == 0 && g.value.numel() == 0) {
    for (const at::Tensor* t : {&g.pse, &g.sink, &g.query_rope, &g.key_rope}) {
      if (t->defined()) t->zero_();
    }
    return;
  }
  const bool rope = given(c.query_rope);
  const at::Tensor& dsink = or_none(g.sink, given(c.sink));
  const at::Tensor &dqr = or_none(g.query_rope, rope), &dkr = or_none(g.key_rope, rope),
                   &dpse = or_none(g.pse, given(c.pse));
  switch (version_of(c)) {
    case Version::kPackedV5:
      ACLNN(aclnnFlashAttentionUnpaddingScoreGradV5)
      (c.query, c.query_rope, c.key, c.key_rope, c.value, f.gradient, c.pse, drop, c.padding_mask, c.atten_mask,
       f.maximum, f.sum, f.softmax, f.out, c.sink, c.prefix, c.q_ends, c.kv_ends, c.q_start, c.kv_start, c.scale,
       c.keep_prob, c.before, c.after, c.heads, c.layout, c.inner_precise, c.sparse_mode, c.pse_type, c.softmax_layout,
       g.query, dqr, g.key, dkr, g.value, dpse, dsink);
      break;
    case Version::kPackedV2:
      ACLNN(aclnnFlashAttentionUnpaddingScoreGradV2)
      (c.query, c.key, c.value, f.gradient, c.pse, drop, c.padding_mask, c.atten_mask, f.maximum, f.sum, f.softmax,
       f.out, c.prefix, c.q_ends, c.kv_ends, c.q_start, c.kv_start, c.scale, c.keep_prob, c.before, c.after, c.heads,
       c.layout, c.inner_precise, c.sparse_mode, c.pse_type, g.query, g.key, g.value, dpse);
      break;
    case Version::kPacked:
      ACLNN(aclnnFlashAttentionUnpaddingScoreGrad)
      (c.query, c.key, c.value, f.gradient, c.pse, drop, c.padding_mask, c.atten_mask, f.maximum, f.sum, f.softmax,
       f.out, c.prefix, c.q_ends, c.kv_ends, c.scale, c.keep_prob, c.before, c.after, c.heads, c.layout,
       c.inner_precise, c.sparse_mode, g.query, g.key, g.value, dpse);
      break;
    case Version::kV4:
      ACLNN(aclnnFlashAttentionScoreGradV4)
      (c.query, c.key, c.value, f.gradient, c.pse, drop, c.padding_mask, c.atten_mask, f.maximum, f.sum, f.softmax,
       f.out, c.sink, c.query_rope, c.key_rope, nullptr, nullptr, nullptr, nullptr, nullptr, c.prefix, c.q_ends,
       c.kv_ends, c.q_start, c.kv_start, c.scale, c.keep_prob, c.before, c.after, c.heads, c.layout, c.softmax_layout,
       c.inner_precise, c.sparse_mode, c.pse_type, 0, 0, 0, g.query, g.key, g.value, dqr, dkr, dpse, dsink);
      break;
    case Version::kV3:
      ACLNN(aclnnFlashAttentionScoreGradV3)
      (c.query, c.key, c.value, f.gradient, c.pse, drop, c.padding_mask, c.atten_mask, f.maximum, f.sum, f.softmax,
       f.out, c.sink, c.prefix, c.q_start, c.kv_start, c.scale, c.keep_prob, c.before, c.after, c.heads, c.layout,
       c.inner_precise, c.sparse_mode, c.pse_type, g.query, g.key, g.value, dpse, dsink);
      break;
    case Version::kV2:
      ACLNN(aclnnFlashAttentionScoreGradV2)
      (c.query, c.key, c.value, f.gradient, c.pse, drop, c.padding_mask, c.atten_mask, f.maximum, f.sum, f.softmax,
       f.out, c.prefix, c.q_start, c.kv_start, c.scale, c.keep_prob, c.before, c.after, c.heads, c.layout,
       c.inner_precise, c.sparse_mode, c.pse_type, g.query, g.key, g.value, dpse);
      break;
    case Version::kFirst:
      ACLNN(aclnnFlashAttentionScoreGrad)
      (c.query, c.key, c.value, f.gradient, c.pse, drop, c.padding_mask, c.atten_mask, f.maximum, f.sum, f.softmax,
       f.out, c.prefix, c.scale, c.keep_prob, c.before, c.after, c.heads, c.layout, c.inner_precise, c.sparse_mode,
       g.query, g.key, g.value, dpse);
      break;
  }
}

}  // namespace npu::ops
