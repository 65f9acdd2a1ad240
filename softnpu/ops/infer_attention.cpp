// Attention of inference with exact arithmetic in fp32, of fp64 queries in fp64: a sequence's scores are a matrix
// [heads, queries, keys] in memory while it is worked on.
#include "softnpu/ops/infer_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "softnpu/ops/low_bits.h"
#include "softnpu/ops/mx_blocks.h"
#include "softnpu/ops/pairs.h"
#include "softnpu/ops/rounded.h"
#include "softnpu/ops/shapes.h"

namespace softnpu::ops::kernels {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

struct Rows {
  int64_t from, to;
};

class Inference {
 public:
  const at::ScalarType type;  // that scores are computed in

  Inference(const Tensor& q, at::TensorList k, at::TensorList v, const InferenceOptions& o)
      : type(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat), o_(o), k_(k), v_(v) {
    const size_t bar = o.layout.find('_');
    in_ = o.layout.substr(0, bar);
    out_ = bar == std::string_view::npos ? in_ : o.layout.substr(bar + 1);
    for (std::string_view name : {in_, out_}) {
      TORCH_CHECK(name == "BSH" || name == "BSND" || name == "BNSD" || name == "NBSD" || name == "TND" ||
                      name == "NTD" || name == "NSD",
                  "attention: the layout ", std::string(o.layout), " is not known");
    }
    TORCH_CHECK(o.heads > 0 && !k.empty() && k.size() == v.size(), "attention: ", o.heads, " heads, ", k.size(),
                " keys, ", v.size(), " values");
    const int64_t dims = in_ == "BSND" || in_ == "BNSD" || in_ == "NBSD" ? 4 : 3;
    TORCH_CHECK(q.dim() == dims, "attention: a query of ", q.sizes(), " for the layout ", std::string(in_));
    packed_ = in_ == "TND" || in_ == "NTD";
    kv_heads_ = o.kv_heads > 0 ? o.kv_heads : o.heads;
    TORCH_CHECK(o.heads % kv_heads_ == 0, "attention: ", o.heads, " query heads and ", kv_heads_, " key heads");
    batch_ = packed_ ? int64_t(o.q_lengths.size()) : in_ == "NSD" ? 1 : in_ == "NBSD" ? q.size(1) : q.size(0);
    TORCH_CHECK(!packed_ || batch_ > 0, "attention: the layout ", std::string(in_), " needs the ends of the queries");
    by_batch_ = k.size() > 1;
    TORCH_CHECK(!by_batch_ || int64_t(k.size()) == batch_, "attention: ", k.size(), " keys for ", batch_, " sequences");
    if (packed_ || by_batch_ || in_ == "NSD" || given(o.tables)) return;
    for (const Tensor* t : {&k[0], &v[0]}) {
      const int64_t has = t->size(in_ == "NBSD" ? 1 : 0);
      TORCH_CHECK(has == batch_, "attention: keys or values of ", has, " sequences for queries of ", batch_);
    }
  }

  int64_t batch() const { return batch_; }
  int64_t group() const { return o_.heads / kv_heads_; }

  // Rows of a sequence's queries in their tensor.
  Rows queries(const Tensor& q, int64_t b) const {
    if (packed_) return {b ? o_.q_lengths[b - 1] : 0, o_.q_lengths[b]};
    const int64_t all = q.size(in_ == "BSH" || in_ == "BSND" || in_ == "NSD" ? 1 : 2);
    return placed(all, length(o_.q_lengths, b, all), o_.q_padding);
  }

  // [heads, rows, columns] of the query, or of what is laid out as it is.
  Tensor query(const Tensor& q, int64_t b, Rows rows) const {
    return heads_of(q, in_, b, o_.heads).narrow(1, rows.from, rows.to - rows.from);
  }
  // Where a sequence's result goes, [heads, rows, columns]: a view.
  Tensor place(const Tensor& out, int64_t b, Rows rows) const {
    return heads_of(out, out_, b, o_.heads).narrow(1, rows.from, rows.to - rows.from);
  }

  // How a cache is read: by its own numbers, or its half of both caches'.
  CacheQuantization numbers(bool keys) const {
    const CacheQuantization& own = keys ? o_.key : o_.value;
    if (given(own.scale)) return own;
    const auto half = [&](const Maybe& t) { return given(t) ? Maybe((*t)[keys ? 0 : 1]) : Maybe(); };
    return {half(o_.both.scale), half(o_.both.offset), o_.both.mode};
  }

  // Keys or values of a sequence, [heads, rows, columns], in that type, for as many heads as the query has.
  Tensor cache(bool keys, int64_t b) const {
    const CacheQuantization q = numbers(keys);
    const at::TensorList list = keys ? k_ : v_;
    std::vector<Tensor> held;  // elements that ATen does not copy, as bytes
    for (const Tensor& t : list) held.push_back(moved_bits(t));
    const Tensor t = raw(held, b);
    Tensor x = t.scalar_type() == at::kInt ? int4_values(t, 2).to(type)
               : t.scalar_type() == list[0].scalar_type()
                   ? t.to(type)
                   : mx::unpacked(t.contiguous().view(list[0].scalar_type())).to(type);
    if (given(q.scale)) {
      if (given(q.offset)) x = x + factor(*q.offset, q.mode, b, x);
      x = x * factor(*q.scale, q.mode, b, x);
    }
    if (keys && given(o_.k_rope)) x = at::cat({x, raw(at::TensorList(*o_.k_rope), b).to(type)}, 2);
    const Maybe& prefix = keys ? o_.k_prefix : o_.v_prefix;
    if (given(prefix)) {
      const Tensor all = heads_of(*prefix, in_, 0, kv_heads_);
      const int64_t used = o_.prefix_length.empty() ? all.size(1) : o_.prefix_length[0];
      x = at::cat({all.narrow(1, 0, used).to(type), x}, 1);
    }
    return group() == 1 ? x : x.repeat_interleave(group(), 0);
  }

  // Scores [heads, n, m] with the bias added, -inf where a key is hidden.
  void finish(Tensor& scores, int64_t b) const {
    const int64_t n = scores.size(1), m = scores.size(2);
    if (given(o_.shift)) {
      Tensor t = o_.shift->to(type);
      if (t.dim() == 4) t = t[t.size(0) > 1 ? b : 0];
      scores.add_(t.narrow(-2, 0, std::min(n, t.size(-2))).narrow(-1, 0, m));
    }
    const Tensor hidden = hides(b, n, m);
    if (hidden.defined()) scores.masked_fill_(hidden, kNone);
  }

 private:
  int64_t length(at::IntArrayRef lengths, int64_t b, int64_t all) const {
    if (lengths.empty()) return all;
    TORCH_CHECK(lengths.size() == 1 || int64_t(lengths.size()) >= batch_, "attention: ", lengths.size(),
                " lengths for ", batch_, " sequences");
    const int64_t value = lengths[lengths.size() == 1 ? 0 : b];
    TORCH_CHECK(value >= 0 && value <= all, "attention: a length of ", value, " for ", all, " rows");
    return value;
  }
  // Rows that are used: the first, or with padding those before the last `padding`.
  static Rows placed(int64_t all, int64_t used, const Maybe& padding) {
    if (!given(padding)) return {0, used};
    const int64_t behind = std::max<int64_t>(0, padding->flatten()[0].item<int64_t>());
    TORCH_CHECK(all - behind - used >= 0, "attention: ", used, " rows and a padding of ", behind, " of ", all);
    return {all - behind - used, all - behind};
  }

  static Tensor heads_of(const Tensor& t, std::string_view layout, int64_t b, int64_t heads) {
    if (layout == "TND") return t.transpose(0, 1);
    if (layout == "NTD" || layout == "NSD") return t;
    if (layout == "NBSD") return t.select(1, b);
    if (layout == "BNSD") return t[b];
    if (layout == "BSND") return t[b].transpose(0, 1);
    const Tensor rows = t[b];
    return rows.view({rows.size(0), heads, rows.size(1) / heads}).transpose(0, 1);
  }

  // A cache's rows of a sequence as they are stored, [kv heads, rows, columns].
  Tensor raw(at::TensorList list, int64_t b) const {
    if (given(o_.tables)) return paged(list[0], b);
    const Tensor t = by_batch_ && list.size() > 1 ? list[b] : list[0];
    if (packed_) {
      TORCH_CHECK(int64_t(o_.kv_lengths.size()) >= batch_, "attention: the layout ", std::string(in_),
                  " needs the ends of the keys");
      const int64_t from = b ? o_.kv_lengths[b - 1] : 0;
      return heads_of(t, in_, b, kv_heads_).narrow(1, from, o_.kv_lengths[b] - from);
    }
    const Tensor all = heads_of(t.is_contiguous() ? t : t.contiguous(), in_, list.size() > 1 ? 0 : b, kv_heads_);
    const Rows rows = placed(all.size(1), length(o_.kv_lengths, b, all.size(1)), o_.kv_padding);
    return all.narrow(1, rows.from, rows.to - rows.from);
  }

  // Of pages a sequence may have as many rows as its row of the table names; packed queries have lengths here too, not ends.
  int64_t paged_length(int64_t b) const {
    TORCH_CHECK(!o_.kv_lengths.empty(), "attention: a paged cache needs the lengths of the keys");
    return length(o_.kv_lengths, b, std::numeric_limits<int64_t>::max());
  }
  // Blocks of a cache by the table's row, one after the other: [rows, ..] of [blocks, block, ..].
  Tensor of_blocks(const Tensor& blocks, int64_t b) const {
    const int64_t rows = paged_length(b), block = blocks.size(1);
    TORCH_CHECK(block > 0 && o_.tables->dim() == 2 && b < o_.tables->size(0) &&
                    (rows + block - 1) / block <= o_.tables->size(1),
                "attention: block tables of ", o_.tables->sizes(), " for ", rows, " rows of sequence ", b);
    const Tensor ids = o_.tables->to(at::kLong)[b].narrow(0, 0, (rows + block - 1) / block);
    return blocks.index_select(0, ids).flatten(0, 1).narrow(0, 0, rows);
  }
  Tensor paged(const Tensor& t, int64_t b) const {
    if (t.dim() == 3) {  // [blocks, block, heads * columns]
      const Tensor rows = of_blocks(t, b);
      return rows.reshape({rows.size(0), kv_heads_, t.size(2) / kv_heads_}).transpose(0, 1);
    }
    if (t.dim() == 4) {  // [blocks, heads, block, columns]
      const bool rows_first = t.size(1) != kv_heads_ && t.size(2) == kv_heads_;
      return of_blocks(rows_first ? t : t.transpose(1, 2), b).transpose(0, 1);
    }
    TORCH_CHECK(t.dim() == 5, "attention: a paged cache of ", t.sizes());  // [blocks, heads, parts, block, part]
    return of_blocks(t.permute({0, 3, 1, 2, 4}), b).flatten(2).transpose(0, 1);
  }

  // A number of quantization, broadcast to x [kv heads, rows, columns].
  Tensor factor(const Tensor& t, int64_t mode, int64_t b, const Tensor& x) const {
    const Tensor f = t.to(type);
    const int64_t rows = x.size(1);
    if (f.numel() == 1) return f.reshape({1, 1, 1});
    if (mode == 0) {
      TORCH_CHECK(f.numel() == kv_heads_ * x.size(2), "attention: a scale of ", t.sizes(), " for ", kv_heads_,
                  " heads of ", x.size(2));
      return f.reshape({kv_heads_, 1, x.size(2)});
    }
    if (mode == 1) return f.reshape({-1, f.size(-1)})[f.numel() > f.size(-1) ? b : 0].narrow(0, 0, rows).unsqueeze(-1);
    if (mode == 2) return f.reshape({kv_heads_, 1, 1});
    if (mode == 3) return f.reshape({-1, kv_heads_, f.size(-1)})[b].narrow(1, 0, rows).unsqueeze(-1);
    if (mode == 4) return of_blocks(f, b).unsqueeze(-1);
    if (mode == 6) {
      const Tensor own = f.reshape({-1, kv_heads_, f.size(-2), f.size(-1)})[b].narrow(1, 0, rows);
      return mx::spread(own, 2, 32, x.size(2));
    }
    TORCH_CHECK_NOT_IMPLEMENTED(mode == 5, "attention: a quantized cache of mode ", mode, " is not implemented");
    return of_blocks(f.transpose(1, 2), b).transpose(0, 1).unsqueeze(-1);
  }

  // Outside the band: key j of query i is seen if -before <= j - i - diagonal <= after.
  static Tensor outside(int64_t n, int64_t m, int64_t before, int64_t after, int64_t diagonal) {
    const Tensor distance = at::arange(m, at::kLong).unsqueeze(0) - at::arange(n, at::kLong).unsqueeze(1) - diagonal;
    return distance.gt(after).logical_or_(distance.lt(-before));
  }

  Tensor hides(int64_t b, int64_t n, int64_t m) const {
    constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
    // Decoding takes no band, and without rotary columns no sparse mode: its one query is the last row.
    if (decodes() && (o_.sparse == 4 || ((o_.sparse == 2 || o_.sparse == 3) && !given(o_.k_rope)))) return {};
    if (o_.sparse == 2) return outside(n, m, kFar, 0, 0);
    if (o_.sparse == 3) return outside(n, m, kFar, 0, m - n);
    if (o_.sparse == 4) return outside(n, m, o_.before, o_.after, m - n);
    TORCH_CHECK_NOT_IMPLEMENTED(o_.sparse == 0 || o_.sparse == 1, "attention: sparse mode ", o_.sparse,
                                " is not implemented");
    if (!given(o_.mask)) return {};
    Tensor t = o_.mask->to(at::kBool);
    if (t.dim() == 2 && o_.mask_by_batch) {
      t = t[t.size(0) > 1 ? b : 0].unsqueeze(0);
    } else if (t.dim() >= 3) {
      t = t[t.size(0) > 1 ? b : 0];
    }
    TORCH_CHECK(t.size(-2) >= n && t.size(-1) >= m, "attention: a mask of ", o_.mask->sizes(), " for ", n,
                " queries and ", m, " keys");
    t = t.narrow(-2, 0, n).narrow(-1, 0, m);
    if (o_.sparse == 0 && !decodes() && (o_.before < m + n || o_.after < m + n)) {
      t = t.logical_or(outside(n, m, o_.before, o_.after, 0));
    }
    return t;
  }

  bool decodes() const { return o_.mask_by_batch; }

  const InferenceOptions& o_;
  at::TensorList k_, v_;
  std::string_view in_, out_;
  bool packed_ = false, by_batch_ = false;
  int64_t batch_ = 0, kv_heads_ = 0;
};

void need_cache(const char* name, const Tensor& t, const CacheQuantization& q) {
  const bool four = is_pairs(t), powers = given(q.scale) && q.scale->scalar_type() == at::kFloat8_e8m0fnu;
  TORCH_CHECK(four == powers && powers == (q.mode == 6), name, " of ", t.scalar_type(), " with scales of ",
              given(q.scale) ? q.scale->scalar_type() : at::kFloat, " in the mode ", q.mode,
              ": 4-bit floats, float8_e8m0fnu and 6 go together");
  need_last_pairs(name, t);
  if (!four && !small_float(t)) return;
  TORCH_CHECK(given(q.scale) && !given(q.offset), name, " of ", t.scalar_type(), " has a scale and no offset");
  TORCH_CHECK(four || q.mode == 0 || q.mode == 1 || q.mode == 4, name, " of ", t.scalar_type(),
              " has scales in the mode ", q.mode, ", not 0, 1 or 4");
  if (!four) return;
  const auto blocks = q.scale->dim() > 3 ? q.scale->size(-1) : 0;
  TORCH_CHECK(blocks > 0, "the scales of ", name, " have the sizes ", q.scale->sizes(),
              ", not [.., heads, rows, columns / 32]");
}

// Products of int8 operands have scales; other operands have none.
void need_products(const Tensor& query, at::TensorList key, at::TensorList value, const InferenceOptions& o) {
  const bool whole = query.scalar_type() == at::kChar;
  for (const auto& [name, t] :
       {std::pair{"deqScale1", &o.scores_in}, {"quantScale1", &o.scores}, {"deqScale2", &o.scores_out}}) {
    TORCH_CHECK(given(*t) == whole, name, whole ? " is needed with a query of int8" : " goes with a query of int8");
    TORCH_CHECK(!whole || (*t)->numel() == 1, name, " has the sizes ", (*t)->sizes(), ", one number is expected");
  }
  if (!whole) return;
  for (const at::TensorList list : {key, value}) {
    for (const Tensor& t : list) TORCH_CHECK(t.scalar_type() == at::kChar, "a query of int8 with ", t.scalar_type());
  }
  TORCH_CHECK(!given(o.q_rope) && !given(o.k_prefix) && !given(o.tables) && !given(o.key.scale) && !given(o.both.scale),
              "queryRope, keySharedPrefix, blockTable and antiquantScale do not go with a query of int8");
}

}  // namespace

void need_inference(const Tensor& query, at::TensorList key, at::TensorList value, const InferenceOptions& o,
                    const Tensor& out) {
  need_products(query, key, value, o);
  TORCH_CHECK(!key.empty() && key.size() == value.size(), "there are ", key.size(), " keys and ", value.size(),
              " values");
  const auto scales = [&](const CacheQuantization& own) {
    return given(own.scale) || !given(o.both.scale) ? own : o.both;
  };
  const CacheQuantization of_key = scales(o.key), of_value = scales(o.value);
  for (size_t i = 0; i < key.size(); i++) {
    need_cache("key", key[i], of_key);
    need_cache("value", value[i], of_value);
  }
  TORCH_CHECK(!small_float(out) || given(o.out_scale), "attentionOut of ", out.scalar_type(), " needs quantScale2");
}

InferenceOptions decoding(InferenceOptions options) {
  std::swap(options.q_lengths, options.kv_lengths);
  options.mask_by_batch = true;
  return options;
}

InferenceOptions either_way(InferenceOptions options, const Tensor& query) {
  const auto in = [&](std::string_view name) { return options.layout.starts_with(name); };
  const int64_t rows = in("BNSD") || in("NBSD") ? 2 : in("BS") ? 1 : -1;
  options.mask_by_batch = rows > 0 && query.dim() > rows && query.size(rows) == 1;
  if (options.mask_by_batch) options.q_lengths = {};  // of one row they are not read
  return options;
}

void infer_attention(const Tensor& query, at::TensorList key, at::TensorList value, const InferenceOptions& options,
                     Tensor& out, Tensor& lse) {
  need_products(query, key, value, options);
  const bool whole = query.scalar_type() == at::kChar;
  TORCH_CHECK_NOT_IMPLEMENTED(whole || at::isFloatingType(query.scalar_type()), "attention: a query of ",
                              query.scalar_type(), " is not implemented");
  const auto number = [](const Maybe& t) { return scale_values(*t).flatten()[0].item<double>(); };
  const Tensor q_all = query.contiguous();
  const Inference call(q_all, key, value, options);
  const bool integer = at::isIntegralType(out.scalar_type(), false) || small_float(out);
  Tensor result = integer ? at::zeros(out.sizes(), out.options().dtype(call.type)) : out.zero_();
  const bool with_lse = lse.defined() && lse.numel() >= query.numel() / std::max<int64_t>(1, query.size(-1));
  if (with_lse) lse.fill_(std::numeric_limits<double>::infinity());
  for (int64_t b = 0; b < call.batch(); b++) {
    const Rows rows = call.queries(q_all, b);
    Tensor q = call.query(q_all, b, rows).to(call.type);
    if (given(options.q_rope)) q = at::cat({q, call.query(options.q_rope->contiguous(), b, rows).to(call.type)}, 2);
    const Tensor k = call.cache(true, b), v = call.cache(false, b);
    TORCH_CHECK(k.size(1) == v.size(1), "attention: ", k.size(1), " keys and ", v.size(1), " values of a sequence");
    if (rows.to <= rows.from) continue;
    const Tensor sink = given(options.sink) ? options.sink->to(call.type).reshape({options.heads, 1, 1}) : Tensor();
    const auto put_lse = [&](const Tensor& value) {
      if (!with_lse) return;
      const Tensor at = lse.dim() == 4 ? lse[b].narrow(1, rows.from, rows.to - rows.from)
                                       : lse.narrow(0, rows.from, rows.to - rows.from).transpose(0, 1);
      at.copy_(value.expand_as(at));
    };
    if (k.size(1) == 0) {  // of no scores there is the sink's
      if (sink.defined()) put_lse(sink);
      continue;
    }
    Tensor scores =
        at::bmm(q, k.transpose(1, 2)).mul_(whole ? number(options.scores_in) * options.scale : options.scale);
    call.finish(scores, b);
    Tensor high = scores.amax(2, true);
    if (sink.defined()) high = high.maximum(sink);
    const Tensor unseen = high.eq(kNone);
    const Tensor top = high.masked_fill(unseen, 0);
    Tensor weights = scores.sub_(top).exp_();
    Tensor sum = weights.sum(2, true);
    if (sink.defined()) sum = sum + (sink - top).exp_();
    weights.div_(sum.masked_fill(sum.eq(0), 1));
    if (whole) weights.mul_(number(options.scores)).round_().clamp_(-128, 127);
    const Tensor product = at::bmm(weights, v);
    call.place(result, b, rows).copy_(whole ? product * number(options.scores_out) : product);
    put_lse((top + sum.log()).masked_fill(unseen, std::numeric_limits<double>::infinity()));
  }
  if (!integer) return;
  TORCH_CHECK(given(options.out_scale), "attention: a quantized result needs a scale");
  const auto of_columns = [&](const Tensor& t) {
    const Tensor f = t.to(call.type).flatten();
    if (f.numel() == 1) return f.reshape({});
    // One number a head and column: in the order of the result's heads and columns.
    const int64_t d = f.numel() / options.heads;
    if (f.numel() == out.size(-1)) return f;
    const bool heads_last = out.dim() >= 3 && out.size(-2) == options.heads;
    return heads_last ? f.reshape({options.heads, d}) : f.reshape({options.heads, 1, d});
  };
  Tensor scaled = result * of_columns(*options.out_scale);
  if (given(options.out_offset)) scaled = scaled + of_columns(*options.out_offset);
  put_rounded(out, scaled);
}

void refuse_inference(const MoreInference& more) {
  need_number("pseType", more.shift_type, {0});
  need_number("queryQuantMode", more.query_mode, {0});
  need_absent("dequantScaleQuery", more.query_scale);
  need_absent("keyRopeAntiquantScale", more.rope_scale);
  TORCH_CHECK_NOT_IMPLEMENTED(more.query_start.empty() && more.key_start.empty(),
                              "qStartIdx and kvStartIdx are not implemented; pass null");
}

}  // namespace softnpu::ops::kernels
