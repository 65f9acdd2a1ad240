// What the C++ written by `python -m torch_npu.utils.custom_ops` stands on: results, gradients, refusals and calls of the NPU's own
// operators, which the same generator writes. Nobody else needs it.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>

#include "torch_npu/csrc/core/npu/NPUFunctions.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"
#include "torch_npu/csrc/extension/exec_npu_cmd.h"
#include "torch_npu/csrc/ops/npu/autograd.h"
#include "torch_npu/csrc/ops/npu/dispatch.h"
#include "torch_npu/csrc/ops/npu/result.h"

namespace torch_npu::custom_op {

using namespace npu::ops;  // what the three headers of csrc/ops/npu declare
using c10_npu::NPUGuard;

// That of the first npu tensor, else the current one.
template <class... T>
c10::DeviceIndex first_device(const T&... tensors) {
  return torch_npu::extension::detail::device_of(tensors...).value_or(c10_npu::current_device());
}

// The sizes of a + b. c10::Error where there are none.
inline Sizes broadcast(const at::Tensor& a, const at::Tensor& b) {
  return at::infer_size_symdimvector(a.sym_sizes(), b.sym_sizes());
}

// `a / b` of a row is written `a / division / b`, `%` likewise: a whole number by zero, which ends the process otherwise, is c10::Error
// that names the operator. Other values are divided as ever.
struct Division {
  const char* op;
};

template <class T>
struct Dividend {
  const T& value;
  Division division;
};

template <class T>
constexpr Dividend<T> operator/(const T& value, Division division) {
  return {value, division};
}
template <class T>
constexpr Dividend<T> operator%(const T& value, Division division) {
  return {value, division};
}

template <class T>
inline constexpr bool is_whole = std::is_integral_v<T> || std::is_same_v<T, c10::SymInt>;

// The smallest number by -1 is beyond its type, which ends the process as well.
template <class A, class B>
constexpr void check_division(const A& a, const B& b, const char* op) {
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B>) {
    using T = decltype(a / b);
    if (b == 0) TORCH_CHECK(false, op, ": division of ", a, " by zero");
    if constexpr (std::is_signed_v<T>)
      if (static_cast<T>(b) == -1 && static_cast<T>(a) == std::numeric_limits<T>::min())
        TORCH_CHECK(false, op, ": division of ", a, " by -1 is beyond its type");
  } else if constexpr (is_whole<A> && is_whole<B>) {
    const c10::SymInt x(a), y(b);
    TORCH_SYM_CHECK(y.sym_ne(0), op, ": division of ", x, " by zero");
    if (x.maybe_as_int() && y.maybe_as_int()) check_division(*x.maybe_as_int(), *y.maybe_as_int(), op);
  }
}

template <class A, class B>
constexpr auto operator/(const Dividend<A>& a, const B& b) {
  check_division(a.value, b, a.division.op);
  return a.value / b;
}
template <class A, class B>
constexpr auto operator%(const Dividend<A>& a, const B& b) {
  check_division(a.value, b, a.division.op);
  return a.value % b;
}

// That `out` lies nowhere but in the whole of a tensor, as PyTorch's own check it. Tensors without memory do not overlap.
inline void check_overlap(const at::Tensor& out, const at::Tensor& other) {
  if (other.defined() && !out.is_meta() && !other.is_meta()) at::assert_no_partial_overlap(out, other);
}
inline void check_overlap(const at::Tensor& out, const std::optional<at::Tensor>& other) {
  if (other) check_overlap(out, *other);
}
inline void check_overlap(const at::Tensor& out, at::TensorList others) {
  for (const at::Tensor& other : others) check_overlap(out, other);
}
inline void check_overlap(const at::Tensor& out, const std::optional<at::TensorList>& others) {
  if (others) check_overlap(out, *others);
}

inline bool holds(const at::Tensor& other, const at::Tensor& out) { return other.is_same(out); }
inline bool holds(const std::optional<at::Tensor>& other, const at::Tensor& out) {
  return other && other->is_same(out);
}
inline bool holds(at::TensorList others, const at::Tensor& out) {
  return std::ranges::any_of(others, [&](const at::Tensor& other) { return other.is_same(out); });
}
inline bool holds(const std::optional<at::TensorList>& others, const at::Tensor& out) {
  return others && holds(*others, out);
}

// What the caller of an out= variant brings: of the result's dtype, and resized where it does not have its sizes, as PyTorch's own do.
// `others` are the operator's other tensors: `out` is one of them as it is, or overlaps none, after it is resized, too.
template <class... T>
void fit(const at::Tensor& out, const Result& result, const T&... others) {
  TORCH_CHECK(out.scalar_type() == result.type, "Expected out tensor to have dtype ", result.type, ", but got ",
              out.scalar_type(), " instead");
  at::assert_no_internal_overlap(out);
  (check_overlap(out, others), ...);
  if (out.sym_sizes() == c10::SymIntArrayRef(result.sizes)) return;
  TORCH_CHECK(!(holds(others, out) || ...), "output with shape ", out.sym_sizes(), " doesn't match the shape ",
              c10::SymIntArrayRef(result.sizes), " of the result, and it is an operand as well: it is not resized");
  for (const c10::SymInt& size : result.sizes)
    TORCH_SYM_CHECK(size.sym_ge(0), "the result would have a negative dimension: ", c10::SymIntArrayRef(result.sizes));
  if (out.is_meta())
    out.resize__symint(result.sizes);
  else
    at::_resize_output__symint(out, result.sizes, out.device());
  (check_overlap(out, others), ...);
}

}  // namespace torch_npu::custom_op
