// Calls one aclnn operator in its two phases: ATen values become acl handles, the workspace comes from the caching allocator,
// the work goes to the current stream. Typed from the generated prototype in aclnn/api.h: a wrong number, order or type of
// arguments does not compile. What it is not: it computes no shape and allocates no output; that is the caller's part.
// Who calls it: the wrappers generated from ops/aten.yaml and ops/npu.yaml, and the hand-written operators of this room and its npu/ and composed/.
//
//     ACLNN(aclnnAdd)(self, other, alpha, out);
//
// The ABI's table says which parameters are written, and a written tensor is more than an input: it must lie on the device and
// share no memory with itself or, partially, with an input (PyTorch's errors), and if it is a lazy conjugation or negation,
// the operator writes a stand-in that is copied back.
//
// Cost: one handle a tensor or number (from the library's pool; the integer 1 has one for all calls), no malloc; symbols are looked up at the first call; a written tensor
// costs a test of its flags and, for each input, a comparison of storages.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "aclnn/api.h"
#include "aclnn/written.h"
#include "csrc/ops/storage.h"
#include "csrc/ops/written.h"

namespace npu {

aclDataType acl_dtype(at::ScalarType type);

namespace detail {

aclTensor* make_tensor(const at::Tensor& tensor, at::Tensor& keep);
aclScalar* make_scalar(const at::Scalar& scalar);
// The handle of the integer 1, which alpha and beta nearly always are: made once, and never destroyed. Null for any other number.
// Not for lists: a list destroys its scalars.
aclScalar* kept_scalar(const at::Scalar& scalar);
aclIntArray* make_ints(at::IntArrayRef values);
aclFloatArray* make_floats(at::ArrayRef<double> values);
aclBoolArray* make_bools(const bool* values, size_t size);
aclTensorList* make_list(at::ArrayRef<const at::Tensor*> tensors, c10::SmallVector<at::Tensor, 2>& keep);
aclScalarList* make_list(at::ArrayRef<at::Scalar> scalars);
void destroy(const aclTensor* handle) noexcept;
void destroy(const aclScalar* handle) noexcept;
void destroy(const aclIntArray* handle) noexcept;
void destroy(const aclFloatArray* handle) noexcept;
void destroy(const aclBoolArray* handle) noexcept;
void destroy(const aclTensorList* handle) noexcept;
void destroy(const aclScalarList* handle) noexcept;

// Owns a handle until phase two has returned: the executor keeps copies of what it needs.
template <class Handle>
class Owner {
 public:
  Owner() = default;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (handle_) destroy(handle_);
  }
  Handle* get() const { return handle_; }

 protected:
  Handle* handle_ = nullptr;
};

// Arg<P>: an ATen value as parameter type P of an aclnn function. Undefined tensors and empty optionals become null.
template <class P>
struct Arg;

template <>
struct Arg<aclTensor*> : Owner<aclTensor> {
  explicit Arg(Repeated repeated) : Arg(repeated.tensor) {}
  explicit Arg(const at::Tensor& tensor) {
    if (tensor.defined()) handle_ = make_tensor(tensor, keep_);
  }
  explicit Arg(const std::optional<at::Tensor>& tensor) {
    if (tensor && tensor->defined()) handle_ = make_tensor(*tensor, keep_);
  }
  explicit Arg(const Owner<aclTensor>& other) : borrowed_(other.get()) {}  // outlives the call
  explicit Arg(std::nullptr_t) {}
  aclTensor* get() const { return borrowed_ ? borrowed_ : handle_; }

 private:
  at::Tensor keep_;  // the device copy of a CPU scalar
  aclTensor* borrowed_ = nullptr;
};

template <>
struct Arg<aclScalar*> : Owner<aclScalar> {
  explicit Arg(const at::Scalar& scalar) { take(scalar); }
  explicit Arg(const std::optional<at::Scalar>& scalar) {
    if (scalar) take(*scalar);
  }
  explicit Arg(std::nullptr_t) {}
  aclScalar* get() const { return kept_ ? kept_ : handle_; }

 private:
  void take(const at::Scalar& scalar) {
    kept_ = kept_scalar(scalar);
    if (!kept_) handle_ = make_scalar(scalar);
  }
  aclScalar* kept_ = nullptr;
};

template <>
struct Arg<aclIntArray*> : Owner<aclIntArray> {
  explicit Arg(at::IntArrayRef values) { handle_ = make_ints(values); }
  template <unsigned N>
  explicit Arg(const c10::SmallVector<int64_t, N>& values) {
    handle_ = make_ints(values);
  }
  explicit Arg(at::OptionalIntArrayRef values) {
    if (values) handle_ = make_ints(*values);
  }
  explicit Arg(std::nullptr_t) {}
};

template <>
struct Arg<aclFloatArray*> : Owner<aclFloatArray> {
  explicit Arg(at::ArrayRef<double> values) { handle_ = make_floats(values); }
  explicit Arg(std::nullptr_t) {}
};

template <>
struct Arg<aclBoolArray*> : Owner<aclBoolArray> {
  template <size_t N>
  explicit Arg(const std::array<bool, N>& values) {
    handle_ = make_bools(values.data(), N);
  }
  explicit Arg(std::nullptr_t) {}
};

template <>
struct Arg<aclTensorList*> : Owner<aclTensorList> {
  explicit Arg(at::TensorList tensors) { fill(tensors); }
  explicit Arg(const at::ITensorListRef& tensors) { fill(tensors); }
  explicit Arg(const std::vector<at::Tensor>& tensors) { fill(tensors); }

 private:
  template <class List>
  void fill(const List& tensors) {
    c10::SmallVector<const at::Tensor*, 16> pointers;
    for (const at::Tensor& tensor : tensors) pointers.push_back(&tensor);
    handle_ = make_list(pointers, keep_);
  }
  c10::SmallVector<at::Tensor, 2> keep_;
};

template <>
struct Arg<aclScalarList*> : Owner<aclScalarList> {
  explicit Arg(at::ArrayRef<at::Scalar> scalars) { handle_ = make_list(scalars); }
};

template <class Handle>
struct Arg<const Handle*> : Arg<Handle*> {
  using Arg<Handle*>::Arg;
};

template <class T>
  requires std::is_arithmetic_v<T>
struct Arg<T> {
  template <class U>
    requires(std::is_arithmetic_v<U> && std::same_as<U, bool> == std::same_as<T, bool> &&
             (std::floating_point<T> || std::integral<U>))
  explicit Arg(U value) : value_(static_cast<T>(value)) {}
  T get() const { return value_; }

 private:
  T value_;
};

template <>
struct Arg<aclDataType> {
  explicit Arg(aclDataType type) : value_(type) {}
  explicit Arg(at::ScalarType type) : value_(acl_dtype(type)) {}
  aclDataType get() const { return value_; }

 private:
  aclDataType value_;
};

template <>
struct Arg<char*> {
  explicit Arg(std::string_view text) : text_(text) {}
  char* get() { return text_.data(); }

 private:
  std::string text_;
};

template <>
struct Arg<const char*> : Arg<char*> {
  using Arg<char*>::Arg;
};

// Tells CANN what torch.use_deterministic_algorithms() says, when that has changed. It chooses kernels by it in phase one.
void follow_determinism();

using PhaseTwo = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);

// Untyped half of an operator: its symbols and what happens after phase one.
class AclnnSymbols {
 public:
  explicit AclnnSymbols(const char* name);
  const char* name() const { return name_; }

 protected:
  [[noreturn]] void missing() const;
  void launch(aclnnStatus status, const uint64_t& workspace_size, aclOpExecutor* const& executor) const;

  const char* name_;
  void* phase_one_;
  PhaseTwo phase_two_;
};

}  // namespace detail

// Written: a bit for each parameter, by position.
template <class Prototype, uint64_t Written>
class AclnnFunction;

// The last two parameters of phase one are the workspace's size and the executor.
template <class... P, uint64_t Written>
class AclnnFunction<aclnnStatus(P...), Written> : public detail::AclnnSymbols {
 public:
  using AclnnSymbols::AclnnSymbols;

  template <class... A>
  void operator()(const A&... args) const {
    static_assert(sizeof...(A) + 2 == sizeof...(P), "wrong number of arguments for this aclnn operator");
    if (!phase_one_ || !phase_two_) missing();
    detail::follow_determinism();
    const auto each = std::index_sequence_for<A...>{};
    if (C10_LIKELY(check(each, args...))) {
      call(each, args...);
    } else {
      call_and_write_back(each, args...);
    }
  }

 private:
  template <size_t I, class A>
  static constexpr bool writes = detail::is_tensor<A> && ((Written >> I) & 1);
  template <size_t I, class A>
  static constexpr bool reads = detail::is_tensor<A> && !((Written >> I) & 1);

  // Throws if an output cannot be written; false if one needs a stand-in.
  template <size_t... I, class... A>
  static bool check(std::index_sequence<I...> each, const A&... args) {
    constexpr size_t outs = (size_t{(Written >> I) & 1 && detail::in_a_row<A>} + ... + 0);
    constexpr size_t operands = (size_t{detail::in_a_row<A>} + ... + 0);
    constexpr bool plain = ((detail::in_a_row<A> || !detail::is_list<A>) && ...);
    if constexpr (plain && outs * (operands - outs) > detail::kFewPairs) {
      detail::Checked all[operands];
      detail::Checked* end = all;
      ((end = detail::put_checked<((Written >> I) & 1) != 0>(end, args)), ...);
      return detail::check_all(all, end);
    } else {
      return (check_output<I>(each, args, args...) && ...);
    }
  }

  template <size_t O, size_t... I, class Out, class... A>
  static bool check_output(std::index_sequence<I...>, const Out& out, const A&... args) {
    if constexpr (writes<O, Out>) {
      const at::Tensor* written = detail::tensor_of(out);
      if (!written || !written->defined()) return true;
      if (C10_UNLIKELY(!detail::plainly_written(*written))) {
        detail::check_written(*written, std::is_same_v<Out, Repeated>);
        if (detail::is_lazy(*written)) return false;
      }
      (check_input<I>(*written, args), ...);
    } else if constexpr (detail::is_list<Out> && ((Written >> O) & 1)) {
      for (const at::Tensor& tensor : out) {
        if (tensor.defined() && C10_UNLIKELY(!detail::plainly_written(tensor))) detail::check_written_in_list(tensor);
      }
    }
    return true;
  }

  template <size_t I, class A>
  static void check_input(const at::Tensor& written, const A& arg) {
    if constexpr (reads<I, A>) {
      const at::Tensor* read = detail::tensor_of(arg);
      if (read && C10_UNLIKELY(may_share(written, *read))) detail::check_shared(written, *read);
    } else if constexpr (detail::is_list<A> && !((Written >> I) & 1)) {
      for (const at::Tensor& read : arg) {
        if (C10_UNLIKELY(may_share(written, read))) detail::check_shared(written, read);
      }
    }
  }

  // Rare: an output is a lazy conjugation or negation, which CANN does not know.
  template <size_t... I, class... A>
  void call_and_write_back(std::index_sequence<I...> each, const A&... args) const {
    std::array<at::Tensor, sizeof...(A)> stand_ins;
    (detail::make_stand_in<writes<I, A>>(args, stand_ins[I]), ...);
    (*this)(detail::or_stand_in<writes<I, A>>(args, stand_ins[I])...);
    (detail::write_back_from<writes<I, A>>(args, stand_ins[I]), ...);
  }

  template <size_t... I, class... A>
  void call(std::index_sequence<I...>, const A&... args) const {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    auto* phase_one = reinterpret_cast<aclnnStatus (*)(P...)>(phase_one_);
    // One full expression: the handles live until phase two has returned.
    launch(phase_one(detail::Arg<std::remove_cv_t<std::tuple_element_t<I, std::tuple<P...>>>>(args).get()..., &size,
                     &executor),
           size, executor);
  }
};

}  // namespace npu

// The operator `name`, its symbols found once. The prototype is only read, never linked.
#define ACLNN(name)                                                                                      \
  ([]() -> const auto& {                                                                                 \
    static const ::npu::AclnnFunction<decltype(name##GetWorkspaceSize), ::aclnn_written::name> f(#name); \
    return f;                                                                                            \
  }())
