// The direct loops of fast.h. Plain loops over restrict-free pointers (outputs may alias inputs exactly), cloned by the
// compiler for AVX-512, AVX2 and the baseline and chosen when the library is loaded.
#include "softnpu/ops/fast.h"

#include <cmath>
#include <cstring>

#include "softnpu/ops/processor.h"

namespace softnpu::ops {

using nnopbase::Arg;
using nnopbase::ScalarCopy;
using nnopbase::TensorCopy;

namespace {

constexpr int64_t kMost = 32768;  // elements: ATen uses more threads beyond

// -- loops -----------------------------------------------------------------------------------------------------------
#define BINARY_LOOP(name, T, expression)                                 \
  CLONES void name(const T* a, const T* b, T* out, int64_t n) {          \
    for (int64_t i = 0; i < n; i++) out[i] = static_cast<T>(expression); \
  }
#define SCALAR_LOOP(name, T, expression)                                 \
  CLONES void name(const T* a, T b, T* out, int64_t n) {                 \
    for (int64_t i = 0; i < n; i++) out[i] = static_cast<T>(expression); \
  }
BINARY_LOOP(add_f, float, a[i] + b[i])
BINARY_LOOP(add_d, double, a[i] + b[i])
BINARY_LOOP(add_l, int64_t, a[i] + b[i])
BINARY_LOOP(add_i, int32_t, a[i] + b[i])
BINARY_LOOP(sub_f, float, a[i] - b[i])
BINARY_LOOP(sub_d, double, a[i] - b[i])
BINARY_LOOP(sub_l, int64_t, a[i] - b[i])
BINARY_LOOP(sub_i, int32_t, a[i] - b[i])
BINARY_LOOP(mul_f, float, a[i] * b[i])
BINARY_LOOP(mul_d, double, a[i] * b[i])
BINARY_LOOP(mul_l, int64_t, a[i] * b[i])
BINARY_LOOP(mul_i, int32_t, a[i] * b[i])
BINARY_LOOP(div_f, float, a[i] / b[i])
BINARY_LOOP(div_d, double, a[i] / b[i])
SCALAR_LOOP(adds_f, float, a[i] + b)
SCALAR_LOOP(adds_l, int64_t, a[i] + b)
SCALAR_LOOP(muls_f, float, a[i] * b)
SCALAR_LOOP(divs_f, float, a[i] / b)
SCALAR_LOOP(muls_l, int64_t, a[i] * b)
// The gradient passes where the input is above zero; a NaN input passes it too.
BINARY_LOOP(relu_gradient_f, float, b[i] <= 0.0f ? 0.0f : a[i])

CLONES void relu_f(const float* a, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = a[i] < 0.0f ? 0.0f : a[i];  // NaN stays NaN
}
CLONES void neg_f(const float* a, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = -a[i];
}
CLONES void fill_4(uint32_t* out, uint32_t value, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = value;
}
CLONES void fill_8(uint64_t* out, uint64_t value, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = value;
}

// -- conditions ------------------------------------------------------------------------------------------------------
template <class T>
T* at(const TensorCopy* t) {
  return reinterpret_cast<T*>(t->data);
}

bool plain(const TensorCopy* a, const TensorCopy* out) {
  return a->contiguous && out->contiguous && a->dtype == out->dtype && a->numel == out->numel && out->numel <= kMost;
}

bool is_one(const ScalarCopy* s) {
  switch (s->dtype) {
    case ACL_FLOAT:
      return *reinterpret_cast<const float*>(s->value) == 1.0f;
    case ACL_DOUBLE:
      return *reinterpret_cast<const double*>(s->value) == 1.0;
    case ACL_INT64:
      return *reinterpret_cast<const int64_t*>(s->value) == 1;
    case ACL_INT32:
      return *reinterpret_cast<const int32_t*>(s->value) == 1;
    default:
      return false;
  }
}

// A scalar as ATen would see it: false where the type promotion is not the tensor's own.
bool number(const ScalarCopy* s, double& real, int64_t& integer, bool& floating) {
  floating = false;
  switch (s->dtype) {
    case ACL_FLOAT:
      real = *reinterpret_cast<const float*>(s->value);
      floating = true;
      return true;
    case ACL_DOUBLE:
      real = *reinterpret_cast<const double*>(s->value);
      floating = true;
      return true;
    case ACL_INT64:
      integer = *reinterpret_cast<const int64_t*>(s->value);
      real = static_cast<double>(integer);
      return true;
    case ACL_INT32:
      integer = *reinterpret_cast<const int32_t*>(s->value);
      real = static_cast<double>(integer);
      return true;
    default:
      return false;
  }
}

// Rounded once: by way of double a large integer would be rounded twice.
float in_float(double real, int64_t integer, bool floating) {
  return floating ? static_cast<float>(real) : static_cast<float>(integer);
}

enum class Operation { kAdd, kSub, kMul, kDiv };

// Same number of elements on all three and shapes that broadcast (phase one checked) means the same shape.
template <Operation kOperation>
bool binary(const TensorCopy* a, const TensorCopy* b, const TensorCopy* out) {
  if (!plain(a, out) || !plain(b, out)) return false;
  int64_t n = out->numel;
#define LOOPS(op)                                                  \
  switch (out->dtype) {                                            \
    case ACL_FLOAT:                                                \
      op##_f(at<float>(a), at<float>(b), at<float>(out), n);       \
      return true;                                                 \
    case ACL_DOUBLE:                                               \
      op##_d(at<double>(a), at<double>(b), at<double>(out), n);    \
      return true;                                                 \
    case ACL_INT64:                                                \
      op##_l(at<int64_t>(a), at<int64_t>(b), at<int64_t>(out), n); \
      return true;                                                 \
    case ACL_INT32:                                                \
      op##_i(at<int32_t>(a), at<int32_t>(b), at<int32_t>(out), n); \
      return true;                                                 \
    default:                                                       \
      return false;                                                \
  }
  if constexpr (kOperation == Operation::kAdd) LOOPS(add)
  if constexpr (kOperation == Operation::kSub) LOOPS(sub)
  if constexpr (kOperation == Operation::kMul) LOOPS(mul)
#undef LOOPS
  if constexpr (kOperation == Operation::kDiv) {
    if (out->dtype == ACL_FLOAT) return div_f(at<float>(a), at<float>(b), at<float>(out), n), true;
    if (out->dtype == ACL_DOUBLE) return div_d(at<double>(a), at<double>(b), at<double>(out), n), true;
  }
  return false;
}

template <Operation kOperation>
bool with_scalar(const TensorCopy* a, const ScalarCopy* s, const TensorCopy* out) {
  double real;
  int64_t integer;
  bool floating;
  if (!plain(a, out) || !number(s, real, integer, floating)) return false;
  int64_t n = out->numel;
  if (out->dtype == ACL_FLOAT) {
    const float value = in_float(real, integer, floating);
    if constexpr (kOperation == Operation::kAdd) return adds_f(at<float>(a), value, at<float>(out), n), true;
    if constexpr (kOperation == Operation::kSub) return adds_f(at<float>(a), -value, at<float>(out), n), true;
    if constexpr (kOperation == Operation::kMul) return muls_f(at<float>(a), value, at<float>(out), n), true;
    if constexpr (kOperation == Operation::kDiv) return divs_f(at<float>(a), value, at<float>(out), n), true;
  }
  if (out->dtype == ACL_INT64 && !floating) {
    if constexpr (kOperation == Operation::kAdd) return adds_l(at<int64_t>(a), integer, at<int64_t>(out), n), true;
    if constexpr (kOperation == Operation::kSub) return adds_l(at<int64_t>(a), -integer, at<int64_t>(out), n), true;
    if constexpr (kOperation == Operation::kMul) return muls_l(at<int64_t>(a), integer, at<int64_t>(out), n), true;
  }
  return false;
}

bool fill(const TensorCopy* t, double real, int64_t integer, bool floating) {
  if (!t->contiguous || t->numel > kMost) return false;
  if (real == 0 && !std::signbit(real)) return std::memset(t->data, 0, static_cast<size_t>(t->numel) * t->item), true;
  switch (t->dtype) {
    case ACL_FLOAT: {
      const float value = in_float(real, integer, floating);
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      return fill_4(at<uint32_t>(t), bits, t->numel), true;
    }
    case ACL_DOUBLE: {
      uint64_t bits;
      std::memcpy(&bits, &real, sizeof bits);
      return fill_8(at<uint64_t>(t), bits, t->numel), true;
    }
    case ACL_INT64:
      return !floating && (fill_8(at<uint64_t>(t), static_cast<uint64_t>(integer), t->numel), true);
    case ACL_BOOL:
      return std::memset(t->data, 1, static_cast<size_t>(t->numel)), true;
    default:
      return false;
  }
}

}  // namespace

// -- the operators: argument positions are the declaration's -----------------------------------------------------------
bool fast_add(const Arg* a) {
  return is_one(a[2].scalar) && binary<Operation::kAdd>(a[0].tensor, a[1].tensor, a[3].tensor);
}
bool fast_sub(const Arg* a) {
  return is_one(a[2].scalar) && binary<Operation::kSub>(a[0].tensor, a[1].tensor, a[3].tensor);
}
bool fast_mul(const Arg* a) { return binary<Operation::kMul>(a[0].tensor, a[1].tensor, a[2].tensor); }
bool fast_div(const Arg* a) { return binary<Operation::kDiv>(a[0].tensor, a[1].tensor, a[2].tensor); }
bool fast_adds(const Arg* a) {
  return is_one(a[2].scalar) && with_scalar<Operation::kAdd>(a[0].tensor, a[1].scalar, a[3].tensor);
}
bool fast_subs(const Arg* a) {
  return is_one(a[2].scalar) && with_scalar<Operation::kSub>(a[0].tensor, a[1].scalar, a[3].tensor);
}
bool fast_muls(const Arg* a) { return with_scalar<Operation::kMul>(a[0].tensor, a[1].scalar, a[2].tensor); }
bool fast_divs(const Arg* a) { return with_scalar<Operation::kDiv>(a[0].tensor, a[1].scalar, a[2].tensor); }
bool fast_add_(const Arg* a) {
  return is_one(a[2].scalar) && binary<Operation::kAdd>(a[0].tensor, a[1].tensor, a[0].tensor);
}
bool fast_sub_(const Arg* a) {
  return is_one(a[2].scalar) && binary<Operation::kSub>(a[0].tensor, a[1].tensor, a[0].tensor);
}
bool fast_mul_(const Arg* a) { return binary<Operation::kMul>(a[0].tensor, a[1].tensor, a[0].tensor); }
bool fast_div_(const Arg* a) { return binary<Operation::kDiv>(a[0].tensor, a[1].tensor, a[0].tensor); }
bool fast_adds_(const Arg* a) {
  return is_one(a[2].scalar) && with_scalar<Operation::kAdd>(a[0].tensor, a[1].scalar, a[0].tensor);
}
bool fast_subs_(const Arg* a) {
  return is_one(a[2].scalar) && with_scalar<Operation::kSub>(a[0].tensor, a[1].scalar, a[0].tensor);
}
bool fast_muls_(const Arg* a) { return with_scalar<Operation::kMul>(a[0].tensor, a[1].scalar, a[0].tensor); }
bool fast_divs_(const Arg* a) { return with_scalar<Operation::kDiv>(a[0].tensor, a[1].scalar, a[0].tensor); }

bool fast_relu(const Arg* a) {
  const TensorCopy *x = a[0].tensor, *out = a[1].tensor;
  if (!plain(x, out) || out->dtype != ACL_FLOAT) return false;
  relu_f(at<float>(x), at<float>(out), out->numel);
  return true;
}
bool fast_relu_(const Arg* a) {
  const Arg both[2] = {a[0], a[0]};
  return fast_relu(both);
}
bool fast_neg(const Arg* a) {
  const TensorCopy *x = a[0].tensor, *out = a[1].tensor;
  if (!plain(x, out) || out->dtype != ACL_FLOAT) return false;
  neg_f(at<float>(x), at<float>(out), out->numel);
  return true;
}

bool fast_copy_(const Arg* a) {
  const TensorCopy *to = a[0].tensor, *from = a[1].tensor;
  if (!plain(from, to)) return false;
  std::memmove(to->data, from->data, static_cast<size_t>(to->numel) * to->item);
  return true;
}

bool fast_fill_(const Arg* a) {
  double real;
  int64_t integer = 0;
  bool floating;
  return number(a[1].scalar, real, integer, floating) && fill(a[0].tensor, real, integer, floating);
}
bool fast_zero_(const Arg* a) { return fill(a[0].tensor, 0, 0, false); }
bool fast_one_(const Arg* a) { return fill(a[0].tensor, 1, 1, false); }

bool fast_threshold_backward(const Arg* a) {
  const TensorCopy *gradient = a[0].tensor, *x = a[1].tensor, *out = a[3].tensor;
  double real = 1;
  int64_t integer;
  bool floating;
  if (!plain(gradient, out) || !plain(x, out) || out->dtype != ACL_FLOAT) return false;
  if (!number(a[2].scalar, real, integer, floating) || real != 0) return false;
  relu_gradient_f(at<float>(gradient), at<float>(x), at<float>(out), out->numel);
  return true;
}

}  // namespace softnpu::ops
