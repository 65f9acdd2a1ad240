// What is checked of the tensors that an aclnn operator writes, and what stands in for one that CANN cannot write as it is.
// What it is not: it knows neither handles nor the table of what is written. Who uses it: csrc/ops/aclnn_call.h.
// Cost: a test of a written tensor's flags and, for each that is read, a comparison of storages.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <type_traits>
#include <vector>

namespace npu {

// A tensor that may be written though several of its elements share memory: all get the same value, or PyTorch only warns.
struct Repeated {
  const at::Tensor& tensor;
};

namespace detail {

// What the checks of written tensors see of an argument: its tensor, or null.
inline const at::Tensor* tensor_of(const at::Tensor& tensor) { return &tensor; }
inline const at::Tensor* tensor_of(const std::optional<at::Tensor>& tensor) { return tensor ? &*tensor : nullptr; }
inline const at::Tensor* tensor_of(const Repeated& repeated) { return &repeated.tensor; }

template <class A>
inline constexpr bool is_list = std::is_same_v<A, at::TensorList> || std::is_same_v<A, at::ITensorListRef> ||
                                std::is_same_v<A, std::vector<at::Tensor>>;
template <class A>
inline constexpr bool is_tensor = requires(const A& a) { tensor_of(a); } && !is_list<A>;

// May it be written as it is? Then nothing else has to be asked of it.
inline bool plainly_written(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kLazy({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->key_set().has(c10::DispatchKey::PrivateUse1) && !impl->key_set().has_any(kLazy) &&
         tensor.is_non_overlapping_and_dense();
}

// What the checks see of an argument: its tensor, or those of its list.
struct Checked {
  const at::Tensor* first;
  uint32_t count;
  bool written, list, repeated;
};
// Pairs of a written and a read operand that are compared at the call itself; more are compared by check_all, which is
// one function for every operator: expanded for each, they were most of what an operator of many arguments costs to compile.
inline constexpr size_t kFewPairs = 4;
template <class A>
inline constexpr bool in_a_row = is_tensor<A> || (is_list<A> && !std::is_same_v<A, at::ITensorListRef>);

// Writes what is checked of an argument, if it is a tensor or a list, and returns the place for the next.
template <bool Written, class A>
Checked* put_checked([[maybe_unused]] Checked* place, [[maybe_unused]] const A& arg) {
  if constexpr (is_tensor<A>) {
    const at::Tensor* tensor = tensor_of(arg);
    *place++ = {tensor, tensor != nullptr, Written, false, std::is_same_v<A, Repeated>};
  } else if constexpr (is_list<A>) {
    *place++ = {arg.data(), static_cast<uint32_t>(arg.size()), Written, true, false};
  }
  return place;
}

// Throws if an output cannot be written; false if one needs a stand-in.
bool check_all(const Checked* begin, const Checked* end);

// Throw PyTorch's errors: another device, memory shared within the tensor, with another in part.
void check_written(const at::Tensor& tensor, bool may_repeat);
void check_shared(const at::Tensor& written, const at::Tensor& read);
void check_written_in_list(const at::Tensor& tensor);
bool is_lazy(const at::Tensor& tensor);
at::Tensor stand_in_for(const at::Tensor& tensor);
void write_back(const at::Tensor& tensor, const at::Tensor& stand_in);

// Of one argument of a call whose outputs need stand-ins; Written: it is a tensor that is written.
template <bool Written, class A>
void make_stand_in([[maybe_unused]] const A& arg, [[maybe_unused]] at::Tensor& stand_in) {
  if constexpr (Written) {
    const at::Tensor* tensor = tensor_of(arg);
    if (tensor && tensor->defined() && is_lazy(*tensor)) stand_in = stand_in_for(*tensor);
  }
}
template <bool Written, class A>
decltype(auto) or_stand_in(const A& arg, [[maybe_unused]] const at::Tensor& stand_in) {
  if constexpr (std::is_same_v<A, Repeated>) {
    return Repeated{stand_in.defined() ? stand_in : arg.tensor};
  } else if constexpr (Written) {
    static const at::Tensor none;
    const at::Tensor* tensor = tensor_of(arg);
    return static_cast<const at::Tensor&>(stand_in.defined() ? stand_in : tensor ? *tensor : none);
  } else {
    return static_cast<const A&>(arg);
  }
}
template <bool Written, class A>
void write_back_from([[maybe_unused]] const A& arg, [[maybe_unused]] const at::Tensor& stand_in) {
  if constexpr (Written) {
    if (stand_in.defined()) write_back(*tensor_of(arg), stand_in);
  }
}

}  // namespace detail
}  // namespace npu
