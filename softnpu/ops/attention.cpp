// See attention.h. Blocks are cut the same way whatever the number of threads, and each is summed in one order: so are the results.
#include "softnpu/ops/attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <optional>
#include <vector>

#include "softnpu/ops/attention_blocks.h"
#include "softnpu/ops/gemm.h"
#include "softnpu/ops/guard.h"
#include "softnpu/ops/kernels.h"

namespace softnpu::ops::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Threads that help have none of the guard that the kernel's own thread has.
template <class F>
void each(const std::vector<Block>& blocks, bool parallel, F&& work) {
  const auto some = [&](int64_t begin, int64_t end) {
    std::optional<KernelGuard> guard;
    if (!KernelMemory::of_thread().running) guard.emplace(1);
    for (int64_t i = begin; i < end; ++i) work(blocks[i], i);
  };
  if (parallel) {
    at::parallel_for(0, static_cast<int64_t>(blocks.size()), 1, some);
  } else {
    some(0, static_cast<int64_t>(blocks.size()));
  }
}

struct Softmax {
  Tensor maximum, sum;  // [heads, rows, 1]
  Tensor weights;       // [heads, rows, keys], not yet divided by the sum
  Tensor sink;          // of the sink, not yet divided, [heads, rows, 1]
  Tensor elsewhere;     // rows that see keys which this call does not have, [heads, rows, 1]; undefined: none do
};

// A row that sees nothing has the maximum and the sum 0.
Softmax softmax(const AttentionBlocks& call, Tensor scores, const Block& b) {
  Softmax out;
  const Tensor sink = call.sinks(b);
  out.maximum = b.keys > 0 ? scores.amax(2, true)
                           : at::zeros({scores.size(0), scores.size(1), 1}, scores.options()).sub_(kInfinity);
  if (sink.defined()) out.maximum = out.maximum.maximum(sink);
  out.maximum.masked_fill_(out.maximum.eq(-kInfinity), 0);
  out.weights = scores.sub_(out.maximum).exp_();
  out.sum = out.weights.sum(2, true);
  if (sink.defined()) {
    out.sink = (sink - out.maximum).exp_();
    out.sum.add_(out.sink);
  }
  return out;
}

// The same from the forward pass.
Softmax softmax_again(const AttentionBlocks& call, Tensor scores, const Block& b, const AttentionForward& forward) {
  Softmax out;
  out.maximum = call.statistic(*forward.maximum, b).narrow(2, 0, 1).to(call.type());
  out.sum = call.statistic(*forward.sum, b).narrow(2, 0, 1).to(call.type());
  out.weights = scores.sub_(out.maximum).exp_();
  Tensor here = out.weights.sum(2, true);
  if (const Tensor sink = call.sinks(b); sink.defined()) {
    out.sink = (sink - out.maximum).exp_();
    here.add_(out.sink);
  }
  constexpr double kRounding = 1e-5;
  out.elsewhere = here.sub_(out.sum).abs_().gt(out.sum * kRounding);
  return out;
}

// [heads of the query, rows, ..] as [heads of the key, rows of all that share it, ..], and products of such.
Tensor joined(const Tensor& t, const Block& b) { return t.view({b.heads, t.size(0) / b.heads * t.size(1), t.size(2)}); }
Tensor product(const Tensor& weights, const Tensor& with, const Block& b) {
  Tensor out = at::empty({weights.size(0), weights.size(1), with.size(2)}, weights.options());
  Tensor rows = joined(out, b);
  gemm_each(joined(weights, b), with, 1, false, rows);
  return out;
}
void add_product(Tensor& sums, const Block& b, const Tensor& weights, const Tensor& with) {
  Tensor part = sums.narrow(1, b.key, b.keys);
  gemm_each(joined(weights, b).transpose(1, 2), joined(with, b), 1, true, part);
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

  // Several blocks may add to one place of the bias's gradient.
  bool parallel() const { return !shift_.defined(); }

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
    Tensor scores = call_.scores(q, k, b);
    const bool again = given_for(forward_.maximum) && given_for(forward_.sum);
    Softmax w = again ? softmax_again(call_, scores, b, forward_) : softmax(call_, scores, b);
    const Tensor divisor = w.sum.masked_fill(w.sum.eq(0), 1);
    w.weights.div_(divisor);
    Tensor d = product(dy, v.transpose(1, 2), b), applied = w.weights;
    if (const Tensor kept = call_.kept(b); kept.defined()) {
      d.mul_(kept);
      applied = applied * kept;
    }
    add_product(dv, b, applied, dy);
    Tensor mean = (d * w.weights).sum(2, true);
    if (w.elsewhere.defined() && given(forward_.out)) {  // the same of all keys, but rounded to the result's type
      mean = at::where(w.elsewhere, (dy * call_.queries(*forward_.out, b)).sum(2, true), mean);
    }
    if (sinks_.defined() && w.sink.defined()) {
      Tensor place = sinks_[&*b.sequence - call_.sequences().data()].narrow(0, b.head * call_.group(), mean.size(0));
      place.sub_((mean * w.sink.div(divisor)).sum({1, 2}));
    }
    d.sub_(mean).mul_(w.weights);
    if (shift_.defined()) call_.add_shift_gradient(shift_, d, b);
    d.mul_(call_.options().scale);
    add_product(dk, b, d, q);
    const Tensor dq = product(d, k, b);
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
  each(blocks, true, [&](const Block& b, int64_t) {
    Softmax w = softmax(call, call.scores(call.query(query, b), call.key(key, b), b), b);
    put_statistic(call, maximum, b, w.maximum);
    put_statistic(call, sum, b, w.sum);
    if (const Tensor kept = call.kept(b); kept.defined()) w.weights.mul_(kept);
    const Tensor products = product(w.weights, call.keys(value, b).to(call.type()), b);
    call.queries(out, b).copy_(products.div_(w.sum.masked_fill(w.sum.eq(0), 1)));
  });
}

void attention_backward(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& gradient,
                        const AttentionOptions& options, const AttentionForward& forward,
                        const AttentionGradients& out) {
  const AttentionBlocks call(query, key, value, options);
  Backward backward(call, query, key, value, gradient, forward, out);
  each(call.heads(), backward.parallel(), [&](const Block& b, int64_t) { backward.work(b); });
  backward.finish();
}

}  // namespace softnpu::ops::kernels
