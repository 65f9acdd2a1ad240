// Attention with exact arithmetic, in fp32 (fp64 for doubles): a sequence's scores are a matrix [heads, queries, keys] in memory
// while it is worked on. The backward pass computes the scores again.
#include "softnpu/ops/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "softnpu/ops/drop_mask.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

// One sequence: where its rows lie in each tensor.
struct Sequence {
  int64_t batch, q_from, q_to, kv_from, kv_to;
  int64_t drop_from;  // first bit of its part of the drop mask
};

// The tensors of a call, with views [heads, rows, columns] of one sequence.
class Call {
 public:
  Call(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) : o_(options) {
    TORCH_CHECK(
        o_.layout == "BSH" || o_.layout == "SBH" || o_.layout == "BNSD" || o_.layout == "BSND" || o_.layout == "TND",
        "attention: the layout ", std::string(o_.layout), " is not one of BSH, SBH, BNSD, BSND, TND");
    TORCH_CHECK(o_.heads > 0, "attention: the number of heads is ", o_.heads);
    const int64_t dims = o_.layout == "BNSD" || o_.layout == "BSND" ? 4 : 3;
    for (const Tensor* t : {&q, &k, &v}) {
      TORCH_CHECK(t->dim() == dims, "attention: the layout ", std::string(o_.layout), " has ", dims,
                  " dimensions, an operand ", t->dim());
    }
    type_ = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    columns_ = o_.layout == "BSH" || o_.layout == "SBH" ? q.size(2) / o_.heads : q.size(-1);
    TORCH_CHECK(columns_ > 0, "attention: a query of ", q.sizes(), " has no columns for ", o_.heads, " heads");
    kv_heads_ = o_.layout == "BSH" || o_.layout == "SBH" ? k.size(2) / columns_
                : o_.layout == "BNSD"                    ? k.size(1)
                                                         : k.size(-2);
    TORCH_CHECK(kv_heads_ > 0 && o_.heads % kv_heads_ == 0, "attention: ", o_.heads, " query heads and ", kv_heads_,
                " key heads");
    find_sequences(q, k);
  }

  const std::vector<Sequence>& sequences() const { return sequences_; }
  at::ScalarType type() const { return type_; }
  int64_t group() const { return o_.heads / kv_heads_; }

  Tensor rows(const Tensor& t, const Sequence& s, bool of_query) const {
    const int64_t from = of_query ? s.q_from : s.kv_from, count = (of_query ? s.q_to : s.kv_to) - from;
    const int64_t heads = of_query ? o_.heads : kv_heads_;
    if (o_.layout == "TND") return t.narrow(0, from, count).transpose(0, 1);
    if (o_.layout == "BNSD") return t[s.batch];
    if (o_.layout == "BSND") return t[s.batch].transpose(0, 1);
    const Tensor rows = o_.layout == "BSH" ? t.select(0, s.batch) : t.select(1, s.batch);
    return rows.reshape({count, heads, rows.size(1) / heads}).transpose(0, 1);
  }

  // What a result is written to: the same view, which must not be a copy.
  void write(const Tensor& t, const Sequence& s, bool of_query, const Tensor& values) const {
    if (!t.defined() || t.numel() == 0) return;
    if (o_.layout == "BSH" || o_.layout == "SBH") {
      const Tensor place = o_.layout == "BSH" ? t.select(0, s.batch) : t.select(1, s.batch);
      place.copy_(values.transpose(0, 1).reshape(place.sizes()));
    } else {
      rows(t, s, of_query).copy_(values);
    }
  }

  Tensor query(const Tensor& q, const Sequence& s) const { return joined(q, o_.q_rope, s, true); }
  Tensor key(const Tensor& k, const Sequence& s) const { return repeated(joined(k, o_.k_rope, s, false)); }
  Tensor value(const Tensor& v, const Sequence& s) const { return repeated(rows(v, s, false).to(type_)); }

  // Key heads that several query heads share: once for each of them, and their gradients' sum.
  Tensor repeated(const Tensor& t) const { return group() == 1 ? t : t.repeat_interleave(group(), 0); }
  Tensor gathered(const Tensor& t) const {
    return group() == 1 ? t : t.view({kv_heads_, group(), t.size(1), t.size(2)}).sum(1);
  }

  // Scores before the mask is applied, scaled and shifted.
  Tensor scores(const Tensor& q, const Tensor& k, const Sequence& s) const {
    Tensor products = at::bmm(q, k.transpose(1, 2));
    if (!given(o_.shift)) return products.mul_(o_.scale);
    const Tensor shift = shifts(s, products.size(1), products.size(2));
    return o_.shift_kind == 1 ? products.add_(shift).mul_(o_.scale) : products.mul_(o_.scale).add_(shift);
  }

  // True where a query must not see a key; undefined if every key is seen.
  Tensor hidden(const Sequence& s) const {
    const int64_t n = s.q_to - s.q_from, m = s.kv_to - s.kv_from;
    constexpr int64_t kFar = std::numeric_limits<int32_t>::max();
    if (o_.sparse == 2) return outside(n, m, kFar, 0, 0);
    if (o_.sparse == 3 || o_.sparse == 7 || o_.sparse == 8) return outside(n, m, kFar, 0, m - n);
    if (o_.sparse == 4) return outside(n, m, o_.before, o_.after, m - n);
    if (o_.sparse == 5 || o_.sparse == 6) {
      TORCH_CHECK(size_t(s.batch) < o_.prefix.size(), "attention: a prefix for each sequence is needed");
      const Tensor seen = at::arange(m, at::kLong).lt(o_.prefix[s.batch]);
      return outside(n, m, kFar, 0, m - n).logical_and_(seen.logical_not());
    }
    Tensor found = given(o_.mask) ? part_of_mask(s, n, m) : Tensor();
    if (o_.sparse == 0 && given(o_.mask) && (o_.before < m + n || o_.after < m + n)) {
      const Tensor band = outside(n, m, o_.before, o_.after, 0);
      found = found.defined() ? found.logical_or(band) : band;
    }
    return found;
  }

  // 1 / keep where a weight stays, 0 where it is dropped; undefined without dropout.
  Tensor kept(const Sequence& s) const {
    if (!given(o_.drop) || o_.keep >= 1) return {};
    const int64_t n = s.q_to - s.q_from, m = s.kv_to - s.kv_from, count = o_.heads * n * m;
    const Tensor flags = o_.drop->contiguous();
    const DropMask stays(flags, s.drop_from + count);
    Tensor out = at::empty({o_.heads, n, m}, type_);
    const auto fill = [&]<class T>(T* to) {
      const auto factor = static_cast<T>(1 / o_.keep);
      for (int64_t i = 0; i < count; i++) to[i] = stays[s.drop_from + i] ? factor : T{0};
    };
    type_ == at::kDouble ? fill(out.mutable_data_ptr<double>()) : fill(out.mutable_data_ptr<float>());
    return out;
  }

  Tensor sinks() const { return given(o_.sink) ? o_.sink->to(type_).reshape({o_.heads, 1, 1}) : Tensor(); }
  const AttentionOptions& options() const { return o_; }

 private:
  void find_sequences(const Tensor& q, const Tensor& k) {
    int64_t bits = 0;
    if (o_.layout == "TND") {
      TORCH_CHECK(!o_.q_ends.empty() && o_.q_ends.size() == o_.kv_ends.size(),
                  "attention: the layout TND needs the ends of each sequence of query and key");
      for (size_t b = 0; b < o_.q_ends.size(); b++) {
        const int64_t q_from = b ? o_.q_ends[b - 1] : 0, kv_from = b ? o_.kv_ends[b - 1] : 0;
        TORCH_CHECK(q_from <= o_.q_ends[b] && kv_from <= o_.kv_ends[b] && o_.q_ends[b] <= q.size(0) &&
                        o_.kv_ends[b] <= k.size(0),
                    "attention: the ends of sequence ", b, " do not lie in query and key");
        sequences_.push_back({int64_t(b), q_from, o_.q_ends[b], kv_from, o_.kv_ends[b], bits});
        bits += o_.heads * (o_.q_ends[b] - q_from) * (o_.kv_ends[b] - kv_from);
      }
      return;
    }
    const int batch = o_.layout == "SBH" ? 1 : 0, row = o_.layout == "SBH" ? 0 : o_.layout == "BNSD" ? 2 : 1;
    for (int64_t b = 0; b < q.size(batch); b++) {
      sequences_.push_back({b, 0, q.size(row), 0, k.size(row), bits});
      bits += o_.heads * q.size(row) * k.size(row);
    }
  }

  Tensor joined(const Tensor& t, const OptionalTensor& rope, const Sequence& s, bool of_query) const {
    const Tensor plain = rows(t, s, of_query).to(type_);
    return given(rope) ? at::cat({plain, rows(*rope, s, of_query).to(type_)}, 2) : plain;
  }

  // Outside the band: key j of query i is seen if -before <= j - i - diagonal <= after.
  static Tensor outside(int64_t n, int64_t m, int64_t before, int64_t after, int64_t diagonal) {
    const Tensor distance = at::arange(m, at::kLong).unsqueeze(0) - at::arange(n, at::kLong).unsqueeze(1) - diagonal;
    return distance.gt(after).logical_or_(distance.lt(-before));
  }

  // [.., n, m] of this sequence, of a mask [n, m], [1 or batch, 1 or heads, n, m] or a larger square.
  Tensor part_of_mask(const Sequence& s, int64_t n, int64_t m) const {
    Tensor t = o_.mask->to(at::kBool);
    if (t.dim() == 4) t = t[t.size(0) > 1 ? s.batch : 0];
    TORCH_CHECK(t.size(-2) >= n && t.size(-1) >= m, "attention: a mask of ", t.size(-2), " x ", t.size(-1), " for ", n,
                " queries and ", m, " keys");
    return t.narrow(-2, 0, n).narrow(-1, 0, m);
  }

  Tensor shifts(const Sequence& s, int64_t n, int64_t m) const {
    Tensor t = o_.shift->to(type_);
    if (o_.shift_kind < 2) {
      if (t.dim() == 4) t = t[t.size(0) > 1 ? s.batch : 0];
      return t.narrow(-1, 0, m).narrow(-2, 0, std::min(n, t.size(-2)));
    }
    // Slopes times the distance between query and key.
    if (t.dim() == 2) t = t[t.size(0) > 1 ? s.batch : 0];
    auto start = [&](IntArrayRef starts) { return starts.empty() ? 0 : starts[0]; };
    const Tensor i = at::arange(n, at::kLong).add_(start(o_.q_start)).unsqueeze(1);
    const Tensor j = at::arange(m, at::kLong).add_(start(o_.kv_start)).unsqueeze(0);
    Tensor distance = (j - i).abs().to(type_);
    if (o_.shift_kind == 3) distance = distance.sqrt();
    return distance.neg().unsqueeze(0) * t.reshape({-1, 1, 1});
  }

  const AttentionOptions& o_;
  at::ScalarType type_;
  int64_t columns_, kv_heads_;
  std::vector<Sequence> sequences_;
};

struct Weights {
  Tensor maximum, sum, weights;  // [heads, n, 1] twice, [heads, n, m]
  Tensor sink;                   // weight of the sink, [heads, n, 1]
};

// Softmax of the rows; a row that sees nothing has weights 0.
Weights softmax(const Call& call, Tensor scores, const Sequence& s) {
  const Tensor hidden = call.hidden(s);
  if (hidden.defined()) scores.masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  Weights w;
  const Tensor sink = call.sinks();
  w.maximum =
      scores.size(2) > 0 ? scores.amax(2, true) : at::zeros({scores.size(0), scores.size(1), 1}, scores.options());
  if (sink.defined()) w.maximum = w.maximum.maximum(sink);
  w.maximum.masked_fill_(w.maximum.eq(-std::numeric_limits<double>::infinity()), 0);
  w.weights = scores.sub_(w.maximum).exp_();
  w.sum = w.weights.sum(2, true);
  if (sink.defined()) {
    w.sink = (sink - w.maximum).exp_();
    w.sum = w.sum + w.sink;
  }
  const Tensor divisor = w.sum.masked_fill(w.sum.eq(0), 1);
  w.weights.div_(divisor);
  if (sink.defined()) w.sink = w.sink / divisor;
  return w;
}

// [heads, n, 1] into the caller's [batch, heads, n, 8], or [tokens, heads, 8].
void put_statistic(Tensor& out, const Sequence& s, const Tensor& values, bool packed) {
  if (!out.defined() || out.numel() == 0) return;
  Tensor place = packed ? out.narrow(0, s.q_from, s.q_to - s.q_from).transpose(0, 1) : out[s.batch];
  place.copy_(values.expand(place.sizes()));
}

}  // namespace

void attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
               Tensor& maximum, Tensor& sum, Tensor& out) {
  const Call call(query, key, value, options);
  for (const Sequence& s : call.sequences()) {
    Weights w = softmax(call, call.scores(call.query(query, s), call.key(key, s), s), s);
    if (const Tensor kept = call.kept(s); kept.defined()) w.weights.mul_(kept);
    call.write(out, s, true, at::bmm(w.weights, call.value(value, s)));
    put_statistic(maximum, s, w.maximum, options.layout == "TND");
    put_statistic(sum, s, w.sum, options.layout == "TND");
  }
}

void attention_backward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& gradient,
                        const AttentionOptions& options, const AttentionGradients& out) {
  const Call call(query, key, value, options);
  Tensor sinks = out.sink && given(*out.sink) ? at::zeros({options.heads}, call.type()) : Tensor();
  for (const Sequence& s : call.sequences()) {
    const Tensor q = call.query(query, s), k = call.key(key, s), v = call.value(value, s);
    const Tensor dy = call.rows(gradient, s, true).to(call.type());
    const Weights w = softmax(call, call.scores(q, k, s), s);
    Tensor d = at::bmm(dy, v.transpose(1, 2));
    Tensor applied = w.weights;
    if (const Tensor kept = call.kept(s); kept.defined()) {
      d.mul_(kept);
      applied = applied * kept;
    }
    call.write(out.value, s, false, call.gathered(at::bmm(applied.transpose(1, 2), dy)));
    const Tensor mean = (d * w.weights).sum(2, true);
    if (sinks.defined() && w.sink.defined()) sinks.sub_((mean * w.sink).sum({1, 2}));
    d.sub_(mean).mul_(w.weights);
    if (out.shift.defined() && out.shift.numel() > 0 && out.shift.dim() == 4 && given(options.shift)) {
      Tensor place = out.shift[out.shift.size(0) > 1 ? s.batch : 0];
      Tensor part = options.shift_kind == 1 ? d * options.scale : d;
      if (place.size(-2) == 1 && part.size(-2) != 1) part = part.sum(-2, true);
      if (out.shift.size(0) == 1 && s.batch > 0) part = part + place.to(part.scalar_type());
      place.copy_(part);
    }
    d.mul_(options.scale);
    const Tensor dq = at::bmm(d, k), dk = call.gathered(at::bmm(d.transpose(1, 2), q));
    const int64_t columns = call.rows(query, s, true).size(2);
    call.write(out.query, s, true, dq.narrow(2, 0, columns));
    call.write(out.key, s, false, dk.narrow(2, 0, columns));
    if (out.q_rope && given(options.q_rope)) {
      call.write(*out.q_rope, s, true, dq.narrow(2, columns, dq.size(2) - columns));
      call.write(*out.k_rope, s, false, dk.narrow(2, columns, dk.size(2) - columns));
    }
  }
  if (sinks.defined()) put(*out.sink, sinks);
}

}  // namespace softnpu::ops::kernels
