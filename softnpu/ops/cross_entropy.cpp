// See cross_entropy.h: with class weights, an ignored class and label smoothing.
#include "softnpu/ops/cross_entropy.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <cmath>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/softmax_rows.h"

namespace softnpu::ops::kernels {
namespace {

// Of each row: which class, below 0 where it is not counted, and its weight, then 0.
struct Targets {
  Tensor classes, weight;
};

constexpr int64_t kGrain = 32768;  // elements that a thread is worth

template <class F>
void each_row(int64_t rows, int64_t columns, F&& work) {
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(columns, 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; i++) work(i);
                   });
}

Targets targets_of(const Tensor& target, const Tensor& class_weight, int64_t classes, int64_t ignore,
                   at::ScalarType type) {
  Targets t{target.to(at::kLong, false, true).contiguous(), at::empty({target.numel()}, type)};
  auto* at = t.classes.mutable_data_ptr<int64_t>();
  const auto fill = [&]<class T>(T* weight) {
    const T* of_class = class_weight.defined() ? class_weight.const_data_ptr<T>() : nullptr;
    for (int64_t i = 0; i < target.numel(); i++) {
      if (at[i] == ignore) {
        at[i] = -1;
        weight[i] = 0;
        continue;
      }
      TORCH_CHECK_INDEX(at[i] >= 0 && at[i] < classes, "Target ", at[i], " is out of bounds.");
      weight[i] = of_class ? of_class[at[i]] : T{1};
    }
  };
  type == at::kDouble ? fill(t.weight.mutable_data_ptr<double>()) : fill(t.weight.mutable_data_ptr<float>());
  return t;
}

Tensor class_weights(const OptionalTensor& weight, at::ScalarType type) {
  return passed(weight) ? weight->to(type).contiguous() : Tensor();
}

// `out`, if numbers of the type can be written where it is.
Tensor room_in(const Tensor& out, at::ScalarType type) {
  return out.scalar_type() == type && out.is_contiguous() ? out : at::empty(out.sizes(), type);
}

template <class F>
void with_type(const Tensor& t, F&& work) {
  t.scalar_type() == at::kDouble ? work(double{}) : work(float{});
}

}  // namespace

void cross_entropy(const Tensor& input, const Tensor& target, const OptionalTensor& weight, std::string_view reduction,
                   int64_t ignore, double smoothing, Tensor& loss, Tensor& log_prob) {
  const Tensor x = wide(input), of_class = class_weights(weight, x.scalar_type());
  const int64_t n = x.size(0), classes = x.size(1);
  const Targets t = targets_of(target, of_class, classes, ignore, x.scalar_type());
  Tensor log_p = room_in(log_prob, x.scalar_type());
  at::_log_softmax_out(log_p, x, 1, false);
  const Tensor rows = at::empty({n}, x.scalar_type());
  const auto* at = t.classes.const_data_ptr<int64_t>();
  with_type(x, [&]<class T>(T) {
    const T *from = log_p.const_data_ptr<T>(), *counts = t.weight.const_data_ptr<T>();
    const T* shares = of_class.defined() ? of_class.const_data_ptr<T>() : nullptr;
    T* to = rows.mutable_data_ptr<T>();
    const T right = static_cast<T>(1 - smoothing), share = static_cast<T>(smoothing / static_cast<double>(classes));
    each_row(n, smoothing > 0 ? classes : 1, [&](int64_t i) {
      const T* row = from + i * classes;
      to[i] = at[i] < 0 ? T{0} : -row[at[i]] * counts[i] * right;
      if (smoothing > 0 && at[i] >= 0) to[i] -= row_sum(row, classes, shares) * share;
    });
  });
  if (!log_p.is_same(log_prob)) put(log_prob, log_p);
  if (reduction == "mean") {
    put(loss, (rows.sum() / t.weight.sum()).reshape(loss.sizes()));
  } else {
    put(loss, reduction == "sum" ? rows.sum().reshape(loss.sizes()) : rows);
  }
}

// Rows that do not count have no part in the loss, whatever the others' sum is: without others it is 0 / 0. Their own NaN is told, as by
// the formula, which has exp(logProb) times 0 there: who looks for one in gradients finds it.
void cross_entropy_backward(const Tensor& gradient, const Tensor& log_prob, const Tensor& target,
                            const OptionalTensor& weight, std::string_view reduction, int64_t ignore, double smoothing,
                            Tensor& out) {
  const Tensor log_p = wide(log_prob).contiguous(),
               dy = wide(gradient).reshape(-1).contiguous().to(log_p.scalar_type());
  const int64_t n = log_p.size(0), classes = log_p.size(1);
  Tensor of_class = class_weights(weight, log_p.scalar_type());
  const Targets t = targets_of(target, of_class, classes, ignore, log_p.scalar_type());
  if (smoothing > 0 && !of_class.defined()) of_class = at::ones({classes}, log_p.scalar_type());
  const Tensor made = room_in(out, log_p.scalar_type());
  const auto* at = t.classes.const_data_ptr<int64_t>();
  with_type(log_p, [&]<class T>(T) {
    const T *from = log_p.const_data_ptr<T>(), *counts = t.weight.const_data_ptr<T>(), *grads = dy.const_data_ptr<T>();
    const T* shares = smoothing > 0 ? of_class.const_data_ptr<T>() : nullptr;
    T* to = made.mutable_data_ptr<T>();
    const T right = static_cast<T>(1 - smoothing), share = static_cast<T>(smoothing / static_cast<double>(classes));
    const T all_shares = shares ? row_sum(shares, classes, nullptr) * share : T{0};
    const T total = reduction == "mean" ? row_sum(counts, n, nullptr) : T{1};
    each_row(n, classes, [&](int64_t i) {
      if (at[i] < 0) {
        const auto hidden = [](T p) { return std::isnan(p) ? p : T{0}; };
        return void(std::transform(from + i * classes, from + (i + 1) * classes, to + i * classes, hidden));
      }
      const T g = grads[dy.numel() > 1 ? i : 0] / total, hit = counts[i] * right;
      log_softmax_row_gradient(from + i * classes, classes, g * (hit + all_shares), g * share, shares,
                               to + i * classes);
      to[i * classes + at[i]] -= g * hit;
    });
  });
  if (!made.is_same(out)) put(out, made);
}

}  // namespace softnpu::ops::kernels
