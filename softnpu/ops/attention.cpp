// See attention.h. Blocks are cut the same way whatever the number of threads, and each is summed in one order: so are the results.
#include "softnpu/ops/attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "softnpu/ops/attention_blocks.h"
#include "softnpu/ops/gemm.h"
#include "softnpu/ops/guard.h"
#include "softnpu/ops/kernels.h"
#include "softnpu/ops/softmax_rows.h"

namespace softnpu::ops::kernels {
namespace {

// Threads that help have none of the guard that the kernel's own thread has.
template <class T, class F>
void each_apart(const std::vector<T>& items, F&& work) {
  const auto some = [&](int64_t begin, int64_t end) {
    std::optional<KernelGuard> guard;
    if (!KernelMemory::of_thread().running) guard.emplace(1);
    for (int64_t i = begin; i < end; ++i) work(items[i]);
  };
  at::parallel_for(0, static_cast<int64_t>(items.size()), 1, some);
}

struct Softmax {
  Tensor weights;              // [heads, rows, keys]
  Tensor maximum, sum, sinks;  // [heads, rows, 1]; sinks: what a sink adds to the sum, or undefined
  Tensor elsewhere;  // rows that see keys which this call does not have, bool [heads, rows, 1]; undefined: none do
};

Tensor column_like(const Tensor& weights) {
  return at::empty({weights.size(0), weights.size(1), 1}, weights.options());
}

// work(head, row counted over all heads, its scores), with the type of the arithmetic.
template <class F>
void each_row(const Tensor& t, F&& work) {
  const auto rows = [&]<class T>(T* from) {
    for (int64_t h = 0, at = 0; h < t.size(0); ++h) {
      for (int64_t i = 0; i < t.size(1); ++i, ++at) work(h, at, from + at * t.size(2));
    }
  };
  t.scalar_type() == at::kDouble ? rows(t.mutable_data_ptr<double>()) : rows(t.mutable_data_ptr<float>());
}

// Numbers of a tensor that is contiguous, or null for an undefined one.
template <class T>
T* numbers(const Tensor& t, const T*) {
  return t.defined() ? t.mutable_data_ptr<T>() : nullptr;
}

// Weights are not yet divided by the sum, and dropped behind it where `kept` is given. A row that sees nothing has the maximum and the sum 0.
Softmax softmax(const AttentionBlocks& call, const Tensor& scores, const Block& b, const KeptRows* kept = nullptr) {
  const Tensor sink = call.sinks(b);
  Softmax out{scores, column_like(scores), column_like(scores), sink.defined() ? column_like(scores) : Tensor(), {}};
  each_row(scores, [&]<class T>(int64_t head, int64_t at, T* row) {
    const T least = sink.defined() ? numbers(sink, row)[head] : -std::numeric_limits<T>::infinity();
    auto [maximum, sum] = softmax_row(row, b.keys, least);
    if (sink.defined()) sum += numbers(out.sinks, row)[at] = std::exp(least - maximum);
    numbers(out.maximum, row)[at] = maximum;
    numbers(out.sum, row)[at] = sum;
    if (const T* stays = kept ? kept->row(at, row) : nullptr) multiply_row(row, b.keys, stays);
  });
  return out;
}

Tensor divisors(const Tensor& sum) { return sum.masked_fill(sum.eq(0), 1); }

// Weights from what the forward pass found, divided.
Softmax softmax_again(const AttentionBlocks& call, const Tensor& scores, const Block& b,
                      const AttentionForward& forward) {
  const auto found = [&](const Tensor& t) { return call.statistic(t, b).select(2, 0).to(call.type()).contiguous(); };
  const Tensor sink = call.sinks(b), maximum = found(*forward.maximum), sum = found(*forward.sum);
  Softmax out{scores, maximum.unsqueeze(2), sum.unsqueeze(2), sink.defined() ? column_like(scores) : Tensor(), {}};
  constexpr double kRounding = 1e-5;
  each_row(scores, [&]<class T>(int64_t head, int64_t at, T* row) {
    const RowStatistic<T> from{numbers(maximum, row)[at], numbers(sum, row)[at]};
    T here = softmax_row_again(row, b.keys, from);
    if (sink.defined()) here += numbers(out.sinks, row)[at] = std::exp(numbers(sink, row)[head] - from.maximum);
    if (std::abs(here - from.sum) <= from.sum * kRounding) return;
    if (!out.elsewhere.defined()) {
      out.elsewhere = at::zeros({scores.size(0), scores.size(1), 1}, scores.options().dtype(at::kBool));
    }
    out.elsewhere.mutable_data_ptr<bool>()[at] = true;
  });
  return out;
}

// [heads of the query, rows, ..] as [heads of the key, rows of all that share it, ..], and products of such.
Tensor joined(const Tensor& t, const Block& b) { return t.view({b.heads, t.size(0) / b.heads * t.size(1), t.size(2)}); }
Tensor product(const Tensor& weights, const Tensor& with, const Block& b, double factor = 1) {
  Tensor out = at::empty({weights.size(0), weights.size(1), with.size(2)}, weights.options());
  Tensor rows = joined(out, b);
  gemm_each(joined(weights, b), with, factor, false, rows);
  return out;
}
void add_product(Tensor& sums, const Block& b, const Tensor& weights, const Tensor& with, double factor = 1) {
  Tensor part = sums.narrow(1, b.key, b.keys);
  gemm_each(joined(weights, b).transpose(1, 2), joined(with, b), factor, true, part);
}

void put_statistic(const AttentionBlocks& call, const Tensor& out, const Block& b, const Tensor& values) {
  if (!out.defined() || out.numel() == 0) return;
  const Tensor place = call.statistic(out, b);
  place.copy_(values.expand(place.sizes()));
}

bool given_for(const std::optional<Tensor>& statistic) { return given(statistic) && statistic->dim() >= 3; }

// The gradients of heads that share keys, over blocks of their queries.
class Backward {
 public:
  Backward(const AttentionBlocks& call, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy,
           const AttentionForward& forward, const AttentionGradients& out)
      : call_(call), q_(q), k_(k), v_(v), dy_(dy), forward_(forward), out_(out) {
    const AttentionOptions& o = call.options();
    if (out.sink && given(*out.sink)) sinks_ = at::zeros({int64_t(call.sequences().size()), o.heads}, call.type());
    if (out.shift.defined() && out.shift.numel() > 0 && given(o.shift))
      shift_ = at::zeros(out.shift.sizes(), call.type());
  }

  // Blocks that add to one place of the bias's gradient, one behind the other: those of the same heads, where heads have places of their own.
  std::vector<std::vector<Block>> teams() const {
    std::vector<std::vector<Block>> out;
    const bool apart = !shift_.defined();
    const bool by_heads = !apart && call_.options().layout != "TND" && shift_.dim() > 2 && shift_.size(-3) > 1;
    for (const Block& b : call_.heads()) {
      const auto place = apart ? out.end() : std::ranges::find_if(out, [&](const std::vector<Block>& team) {
        return !by_heads || team.front().head == b.head;
      });
      place == out.end() ? void(out.push_back({b})) : place->push_back(b);
    }
    return out;
  }

  void work(const Block& all) {
    const Tensor k = call_.key(k_, all), v = call_.keys(v_, all).to(call_.type());
    Tensor dk = at::zeros(k.sizes(), k.options()), dv = at::zeros(v.sizes(), v.options());
    for (const Block& b : call_.rows(all)) rows(b, k, v, dk, dv);
    if (out_.value.defined()) call_.keys(out_.value, all).copy_(dv);
    const int64_t columns = call_.keys(k_, all).size(2);
    if (out_.key.defined()) call_.keys(out_.key, all).copy_(dk.narrow(2, 0, columns));
    if (out_.k_rope && given(call_.options().k_rope))
      call_.keys(*out_.k_rope, all).copy_(dk.narrow(2, columns, dk.size(2) - columns));
  }

  void finish() {
    if (sinks_.defined()) put(*out_.sink, sinks_.sum(0));
    if (shift_.defined()) put(out_.shift, shift_);
  }

 private:
  void rows(const Block& b, const Tensor& k_all, const Tensor& v_all, Tensor& dk, Tensor& dv) {
    const Tensor k = k_all.narrow(1, b.key, b.keys), v = v_all.narrow(1, b.key, b.keys);
    const Tensor q = call_.query(q_, b), dy = call_.queries(dy_, b).to(call_.type()).contiguous();
    const Tensor scores = call_.scores(q, k, b);
    const bool again = given_for(forward_.maximum) && given_for(forward_.sum);
    Softmax w = again ? softmax_again(call_, scores, b, forward_) : softmax(call_, scores, b);
    if (!again) w.weights.div_(divisors(w.sum));
    const KeptRows kept(call_, b);
    const Tensor d = product(dy, v.transpose(1, 2), b);
    const Tensor applied = kept.some() ? at::empty(scores.sizes(), scores.options()) : w.weights;
    const Tensor mean = column_like(scores);
    Tensor whole;  // the mean of all keys where this call has not all of them, but rounded to the result's type
    if (w.elsewhere.defined() && given(forward_.out)) {
      whole = (dy * call_.queries(*forward_.out, b)).sum(2, true).to(call_.type());
    }
    const auto gradients = [&]<class T>(int64_t, int64_t at, T* row) {
      T* to = numbers(d, row) + at * b.keys;
      T* applied_row = numbers(applied, row) + at * b.keys;
      T found = softmax_row_mean(row, b.keys, kept.row(at, row), to, applied_row);
      if (whole.defined() && w.elsewhere.const_data_ptr<bool>()[at]) found = numbers(whole, row)[at];
      numbers(mean, row)[at] = found;
      softmax_row_gradient(row, b.keys, found, to);
    };
    each_row(w.weights, gradients);
    add_product(dv, b, applied, dy);
    if (sinks_.defined() && w.sinks.defined()) {
      Tensor place = sinks_[&*b.sequence - call_.sequences().data()].narrow(0, b.head * call_.group(), mean.size(0));
      place.sub_((mean * w.sinks.div(divisors(w.sum))).sum({1, 2}));
    }
    if (shift_.defined()) call_.add_shift_gradient(shift_, d, b);
    add_product(dk, b, d, q, call_.options().scale);
    const Tensor dq = product(d, k, b, call_.options().scale);
    const int64_t columns = call_.queries(q_, b).size(2);
    if (out_.query.defined()) call_.queries(out_.query, b).copy_(dq.narrow(2, 0, columns));
    if (out_.q_rope && given(call_.options().q_rope))
      call_.queries(*out_.q_rope, b).copy_(dq.narrow(2, columns, dq.size(2) - columns));
  }

  const AttentionBlocks& call_;
  const Tensor &q_, &k_, &v_, &dy_;
  const AttentionForward& forward_;
  const AttentionGradients& out_;
  Tensor sinks_, shift_;  // [sequences, heads]; like the bias
};

}  // namespace

void attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
               Tensor& maximum, Tensor& sum, Tensor& out) {
  const AttentionBlocks call(query, key, value, options);
  std::vector<Block> blocks;
  for (const Block& heads : call.heads()) {
    for (const Block& b : call.rows(heads)) blocks.push_back(b);
  }
  each_apart(blocks, [&](const Block& b) {
    const KeptRows kept(call, b);
    const Softmax w = softmax(call, call.scores(call.query(query, b), call.key(key, b), b), b, &kept);
    put_statistic(call, maximum, b, w.maximum);
    put_statistic(call, sum, b, w.sum);
    const Tensor products = product(w.weights, call.keys(value, b).to(call.type()), b);
    call.queries(out, b).copy_(products.div_(divisors(w.sum)));
  });
}

void attention_backward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& gradient,
                        const AttentionOptions& options, const AttentionForward& forward,
                        const AttentionGradients& out) {
  const AttentionBlocks call(query, key, value, options);
  Backward backward(call, query, key, value, gradient, forward, out);
  each_apart(backward.teams(), [&](const std::vector<Block>& team) {
    for (const Block& b : team) backward.work(b);
  });
  backward.finish();
}

}  // namespace softnpu::ops::kernels
