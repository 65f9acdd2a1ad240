// Forms of operators that write results into tensors which the caller gives: compositions of the operator and copies. Who uses it: rows of
// ops/npu.yaml whose schema ends with a list `out`.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <tuple>
#include <utility>

#include "csrc/ops/npu/compose.h"
#include "csrc/ops/npu/sizes.h"

namespace npu::ops {

inline at::Tensor into(const at::Tensor& to, const at::Tensor& from) {
  if (!from.defined() || !to.defined()) return from;
  if (from.sym_numel() == 0) return to;  // what was not asked for
  check_out(to, from);
  if (to.sym_numel() == 0) return copied(writable(to), from);  // resized, as PyTorch does
  TORCH_CHECK(to.sym_sizes() == from.sym_sizes(), "a tensor of out has sizes ", to.sym_sizes(), " where ",
              from.sym_sizes(), " are expected");
  return at::Tensor(to).copy_(from);
}

template <class... T, size_t... I>
std::tuple<T...> into(at::TensorList out, const std::tuple<T...>& results, std::index_sequence<I...>) {
  return {into(out[I], std::get<I>(results))...};
}

template <class... T>
std::tuple<T...> into(at::TensorList out, const std::tuple<T...>& results) {
  TORCH_CHECK(out.size() == sizeof...(T), "out must have ", sizeof...(T), " tensors, it has ", out.size());
  return into(out, results, std::index_sequence_for<T...>{});
}

inline at::OptionalSymIntArrayRef symbols(at::OptionalIntArrayRef values) {
  return values ? at::OptionalSymIntArrayRef(c10::fromIntArrayRefSlow(*values)) : std::nullopt;
}

}  // namespace npu::ops
