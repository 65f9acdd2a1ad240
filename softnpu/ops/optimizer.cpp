// Optimizers and what mixed precision needs around them: one pass over memory instead of ATen's eight.
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adam_native.h>
#include <ATen/ops/_fused_adamw_native.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/ceil_cpu_dispatch.h>
#include <ATen/ops/floor_cpu_dispatch.h>
#include <ATen/ops/frac_cpu_dispatch.h>
#include <ATen/ops/round_cpu_dispatch.h>
#include <ATen/ops/trunc_cpu_dispatch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "softnpu/ops/kernels.h"
#include "softnpu/ops/processor.h"

namespace softnpu::ops::kernels {

Scalar item(const Tensor& t) {
  TORCH_CHECK(t.numel() > 0, "a tensor without elements is given as a number");
  return at::native::_local_scalar_dense_cpu(t);
}
Scalar item(const Tensor& t, int64_t i) { return at::native::_local_scalar_dense_cpu(t.reshape({-1}).select(0, i)); }

void round_off(const Tensor& x, int64_t mode, Tensor& out) {
  switch (mode) {
    case 1:
    case 4:
      at::cpu::round_outf(x, out);
      return;
    case 2:
      at::cpu::floor_outf(x, out);
      return;
    case 3:
      at::cpu::ceil_outf(x, out);
      return;
    case 5:
      at::cpu::trunc_outf(x, out);
      return;
    case 6:
    case 7:
      at::cpu::frac_outf(x, out);
      return;
    default:
      TORCH_CHECK(false, "roundMode must be 1 to 7, not ", mode);
  }
}

namespace {

// Multiplies; true if an infinity or NaN was there. An integer maximum, which the compiler vectorizes, of the exponents.
CLONES bool unscale_loop(float* __restrict values, int64_t n, float inverse) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; i++) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & kExponent);
    values[i] *= inverse;
  }
  return largest == kExponent;
}
template <class T, class A = at::opmath_type<T>>
bool unscale_loop(T* values, int64_t n, A inverse) {
  bool bad = false;
  for (int64_t i = 0; i < n; i++) {
    auto v = static_cast<A>(values[i]);
    bad |= !std::isfinite(v);
    values[i] = static_cast<T>(v * inverse);
  }
  return bad;
}

template <class T, class A = at::opmath_type<T>>
bool unscale_values(T* values, int64_t n, A inverse) {
  std::atomic<bool> bad{false};
  at::parallel_for(0, n, 16384, [&](int64_t begin, int64_t end) {
    if (unscale_loop(values + begin, end - begin, inverse)) bad.store(true, std::memory_order_relaxed);
  });
  return bad.load();
}

}  // namespace

void unscale(at::TensorList gradients, Tensor& found_inf, const Tensor& inverse_scale) {
  const double inverse = item(inverse_scale).toDouble();
  bool bad = false;
  for (const Tensor& g : gradients) {
    Tensor values = g.is_non_overlapping_and_dense() ? g : g.contiguous();
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, g.scalar_type(), "unscale", [&] {
      bad |= unscale_values(values.mutable_data_ptr<scalar_t>(), values.numel(),
                            static_cast<at::opmath_type<scalar_t>>(inverse));
    });
    if (!values.is_same(g)) {
      Tensor to = g;
      put(to, values);
    }
  }
  if (bad) found_inf.fill_(1);
}

void amp_update_scale(const Tensor& scale, const Tensor& tracker, const Tensor& found_inf, double growth,
                      double backoff, int64_t interval, Tensor& new_scale, Tensor& new_tracker) {
  // Outputs may be the inputs: read everything first.
  auto current = static_cast<float>(item(scale).toDouble());
  int64_t successes = item(tracker).toLong();
  if (item(found_inf).toDouble() != 0) {
    current = static_cast<float>(current * backoff);
    successes = 0;
  } else if (++successes == interval) {
    auto grown = static_cast<float>(current * growth);
    if (std::isfinite(grown)) current = grown;
    successes = 0;
  }
  new_scale.fill_(current);
  new_tracker.fill_(successes);
}

namespace {

// In fp32, or fp64 for fp64.
template <class T, class A = at::opmath_type<T>>
struct AdamwStep {
  A keep, beta1, beta2, step_size, root2, eps, sign;
};

template <class T, class A = at::opmath_type<T>>
CLONES void adamw_loop(T* __restrict p, T* __restrict m, T* __restrict v, T* __restrict vmax, const T* __restrict g,
                       int64_t n, const AdamwStep<T> step) {
  const auto [keep, beta1, beta2, step_size, root2, eps, sign] = step;
  for (int64_t i = 0; i < n; i++) {
    A grad = sign * static_cast<A>(g[i]);
    A mean = static_cast<A>(m[i]) * beta1 + (1 - beta1) * grad;
    A var = static_cast<A>(v[i]) * beta2 + (1 - beta2) * grad * grad;
    m[i] = static_cast<T>(mean);
    v[i] = static_cast<T>(var);
    if (vmax) {
      A most = static_cast<A>(vmax[i]);
      var = most > var ? most : var;
      vmax[i] = static_cast<T>(var);
    }
    p[i] = static_cast<T>(static_cast<A>(p[i]) * keep - step_size * mean / (std::sqrt(var) / root2 + eps));
  }
}

}  // namespace

void adamw(Tensor& param, Tensor& mean, Tensor& var, Tensor& max_var, const Tensor& gradient, const Tensor& step,
           double lr, double beta1, double beta2, double decay, double eps, bool amsgrad, bool maximize) {
  double t = item(step).toDouble() + 1;  // the step counts from zero
  for (const Tensor* other : std::initializer_list<const Tensor*>{&mean, &var, &gradient})
    need_size(*other, param.sizes(), "adamw: an operand");
  if (amsgrad) need_size(max_var, param.sizes(), "adamw: the largest squares");
  Tensor p = param.contiguous(), m = mean.contiguous(), v = var.contiguous(),
         g = gradient.to(param.scalar_type()).contiguous();
  Tensor x = amsgrad ? max_var.contiguous() : Tensor();
  const double step_size = lr / (1 - std::pow(beta1, t)), root2 = std::sqrt(1 - std::pow(beta2, t));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, param.scalar_type(), "adamw", [&] {
    auto *pp = p.mutable_data_ptr<scalar_t>(), *mm = m.mutable_data_ptr<scalar_t>(),
         *vv = v.mutable_data_ptr<scalar_t>();
    auto* xx = amsgrad ? x.mutable_data_ptr<scalar_t>() : nullptr;
    const auto* gg = g.const_data_ptr<scalar_t>();
    using A = at::opmath_type<scalar_t>;
    const AdamwStep<scalar_t> numbers{A(1 - lr * decay),   A(beta1), A(beta2), A(step_size), A(root2), A(eps),
                                      A(maximize ? -1 : 1)};
    at::parallel_for(0, p.numel(), 16384, [&](int64_t begin, int64_t end) {
      adamw_loop<scalar_t>(pp + begin, mm + begin, vv + begin, xx ? xx + begin : nullptr, gg + begin, end - begin,
                           numbers);
    });
  });
  if (!p.is_same(param)) put(param, p);
  if (!m.is_same(mean)) put(mean, m);
  if (!v.is_same(var)) put(var, v);
  if (amsgrad && !x.is_same(max_var)) put(max_var, x);
}

namespace {

// Can the tensors be walked by one index into their memory?
bool laid_out_alike(const Tensor& model, std::initializer_list<const Tensor*> others) {
  return model.is_non_overlapping_and_dense() &&
         std::all_of(others.begin(), others.end(), [&](const Tensor* t) { return t->strides() == model.strides(); });
}

// Writes `from`, a contiguous copy, back. An expanded tensor has one element for many indices, and all got one value.
void put_back(const Tensor& to, const Tensor& from) {
  if (from.is_same(to)) return;
  Tensor target = to, result = from;
  for (int64_t d = 0; d < to.dim(); d++) {
    if (to.stride(d) != 0 || to.size(d) < 2) continue;
    target = target.narrow(d, 0, 1);
    result = result.narrow(d, 0, 1);
  }
  put(target, result);
}

}  // namespace

void fused_adam(at::TensorList params, at::TensorList gradients, at::TensorList means, at::TensorList vars,
                at::TensorList max_vars, at::TensorList steps, const OptionalTensor& grad_scale,
                const OptionalTensor& found_inf, double lr, double beta1, double beta2, double decay, double eps,
                bool amsgrad, bool maximize, bool decoupled) {
  const size_t n = params.size();
  const std::pair<const char*, at::TensorList> lists[] = {{"the list of gradients", gradients},
                                                          {"the list of averages", means},
                                                          {"the list of squares", vars},
                                                          {"the list of largest squares", max_vars},
                                                          {"the list of steps", steps}};
  for (const auto& [what, list] : lists) {
    if (list.data() == max_vars.data() && !amsgrad) continue;
    need_length(list.size(), n, what);
    for (size_t i = 0; i < n; i++) {
      if (list.data() == steps.data()) {
        TORCH_CHECK(list[i].numel() == 1, "fused_adam: a step has ", list[i].numel(), " elements");
      } else {
        need_size(list[i], params[i].sizes(), what);
      }
    }
  }
  // ATen's kernel walks by one index. Where memory does not allow that, it gets contiguous copies.
  const at::TensorList lists_of_one_shape[] = {params, gradients, means, vars, max_vars};
  const size_t count = amsgrad ? 5 : 4;
  std::array<std::vector<Tensor>, 5> copies;
  std::vector<size_t> copied;
  for (size_t i = 0; i < n; i++) {
    if (laid_out_alike(params[i], {&gradients[i], &means[i], &vars[i], amsgrad ? &max_vars[i] : &vars[i]})) continue;
    for (size_t k = 0; k < count; k++) {
      if (copied.empty()) copies[k] = lists_of_one_shape[k].vec();
      copies[k][i] = copies[k][i].contiguous();
    }
    copied.push_back(i);
  }
  const auto list = [&](size_t k) { return copied.empty() || k >= count ? lists_of_one_shape[k] : copies[k]; };
  auto run = [&](auto kernel) {
    kernel(list(0), list(1), list(2), list(3), list(4), steps, lr, beta1, beta2, decay, eps, amsgrad, maximize,
           grad_scale, found_inf);
  };
  using Kernel =
      void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList, double,
               double, double, double, double, bool, bool, const OptionalTensor&, const OptionalTensor&);
  decoupled ? run(static_cast<Kernel>(at::native::_fused_adamw_kernel_cpu_))
            : run(static_cast<Kernel>(at::native::_fused_adam_kernel_cpu_));
  const bool scaled = passed(grad_scale);  // else gradients are only read
  for (size_t i : copied) {
    for (size_t k = 0; k < count; k++) {
      if (k != 1 || scaled) put_back(lists_of_one_shape[k][i], copies[k][i]);
    }
  }
}

namespace {

struct SgdStep {
  double decay, momentum, keep, lr, scale;  // keep: 1 - dampening; scale: what gradients are divided by
  bool nesterov, maximize, first;
};

// In fp32 (fp64 for doubles), rounded once a value: ATen's own kernel is wrong for 16-bit types (torch 2.13).
template <class T, class A = at::opmath_type<T>>
void sgd_loop(T* __restrict p, T* __restrict g, T* __restrict b, int64_t n, const SgdStep& step) {
  auto decay = static_cast<A>(step.decay), momentum = static_cast<A>(step.momentum), keep = static_cast<A>(step.keep),
       lr = static_cast<A>(step.lr), scale = static_cast<A>(step.scale), sign = static_cast<A>(step.maximize ? -1 : 1);
  for (int64_t i = 0; i < n; i++) {
    A grad = static_cast<A>(g[i]) / scale;
    if (scale != 1) g[i] = static_cast<T>(grad);
    A value = static_cast<A>(p[i]);
    grad = sign * grad + decay * value;
    if (b) {
      A moved = step.first ? grad : static_cast<A>(b[i]) * momentum + grad * keep;
      b[i] = static_cast<T>(moved);
      grad = step.nesterov ? grad + moved * momentum : moved;
    }
    p[i] = static_cast<T>(value - lr * grad);
  }
}

void sgd(const Tensor& param, const Tensor& gradient, const Tensor* buffer, const SgdStep& step) {
  need_size(gradient, param.sizes(), "fused_sgd: a gradient");
  if (buffer) need_size(*buffer, param.sizes(), "fused_sgd: a momentum buffer");
  Tensor p = param.contiguous(), g = gradient.contiguous(), b = buffer ? buffer->contiguous() : Tensor();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, param.scalar_type(), "fused_sgd", [&] {
    auto *pp = p.mutable_data_ptr<scalar_t>(), *gg = g.mutable_data_ptr<scalar_t>(),
         *bb = buffer ? b.mutable_data_ptr<scalar_t>() : nullptr;
    at::parallel_for(0, p.numel(), 16384, [&](int64_t begin, int64_t end) {
      sgd_loop<scalar_t>(pp + begin, gg + begin, bb ? bb + begin : nullptr, end - begin, step);
    });
  });
  put_back(param, p);
  if (step.scale != 1) put_back(gradient, g);  // else it is only read
  if (buffer) put_back(*buffer, b);
}

}  // namespace

void fused_sgd(at::TensorList params, at::TensorList gradients, at::TensorList buffers,
               const OptionalTensor& grad_scale, double decay, double momentum, double lr, double dampening,
               bool nesterov, bool maximize, bool first) {
  double scale = passed(grad_scale) ? item(*grad_scale).toDouble() : 1;
  need_length(gradients.size(), params.size(), "fused_sgd: the list of gradients");
  if (momentum != 0) need_length(buffers.size(), params.size(), "fused_sgd: the list of momentum buffers");
  const SgdStep step{decay, momentum, 1 - dampening, lr, scale, nesterov, maximize, first};
  for (size_t i = 0; i < params.size(); i++) {
    sgd(params[i], gradients[i], momentum != 0 ? &buffers[i] : nullptr, step);
  }
}

}  // namespace softnpu::ops::kernels
