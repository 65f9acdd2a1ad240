// Who looks into an operand: transforms of torch.func, traces, subclasses of tensors and forward-mode derivatives have rules for PyTorch's
// operators and none for ours, and a note that stands for zeros, a negative or a conjugate is resolved below autograd. An operator that takes a way
// of its own past its PyTorch composition asks here first. What it is not: the types and shapes that the way of its own takes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "csrc/ops/npu/autograd.h"

namespace npu {

// Dispatch modes see operators, not operands. One may be active in only one of the two passes of a checkpoint, which compares what both keep:
// that must not depend on it where the way of its own is an operator that modes see. torch.lstm's depends on it: a mode of the program's, as the
// comparison with the CPU, sees PyTorch's loop, each step's operators by themselves.
inline bool mode_active() { return c10::impl::TorchDispatchModeTLS::any_modes_set(); }

namespace detail {

inline bool of_device_memory(const at::Tensor& t) {
  return t.is_privateuseone() && t.layout() == at::kStrided && !t.is_nested() && !ops::has_tangent(t);
}

inline constexpr c10::DispatchKeySet kTransforms({c10::DispatchKey::FuncTorchBatched,
                                                  c10::DispatchKey::FuncTorchGradWrapper});
inline constexpr c10::DispatchKeySet kNotes({c10::DispatchKey::ZeroTensor, c10::DispatchKey::Negative,
                                             c10::DispatchKey::Conjugate});
inline constexpr c10::DispatchKeySet kTraces({c10::DispatchKey::Python, c10::DispatchKey::Functionalize});

inline bool traced() {
  using c10::impl::TorchDispatchModeKey;
  for (const auto trace : {TorchDispatchModeKey::FAKE, TorchDispatchModeKey::PROXY, TorchDispatchModeKey::FUNCTIONAL})
    if (c10::impl::TorchDispatchModeTLS::get_mode(trace)) return true;
  return false;
}

}  // namespace detail

// A subclass of tensors, as DTensor. What a trace makes of its operands is none.
inline bool is_subclass(const at::Tensor& t) { return t.key_set().has(c10::DispatchKey::Python) && !detail::traced(); }

// Nobody looks into it.
inline bool unwatched(const at::Tensor& t) {
  constexpr c10::DispatchKeySet looked_into = detail::kTransforms | detail::kNotes | detail::kTraces;
  return detail::of_device_memory(t) && !t.key_set().has_any(looked_into);
}

// Nobody but a trace does, to which an operator with shapes for "meta" is worth showing.
inline bool unwatched_but_by_traces(const at::Tensor& t) {
  constexpr c10::DispatchKeySet looked_into = detail::kTransforms | detail::kNotes;
  return detail::of_device_memory(t) && !t.key_set().has_any(looked_into) && !is_subclass(t);
}

}  // namespace npu
