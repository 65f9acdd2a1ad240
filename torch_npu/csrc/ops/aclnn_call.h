// Calls one aclnn operator in its two phases: ATen values become acl handles, the workspace comes from the caching allocator,
// the work goes to the current stream. Typed from the generated prototype in aclnn/api.h: a wrong number, order or type of
// arguments does not compile. What it is not: it computes no shape and allocates no output; that is the caller's part.
// Who calls it: the wrappers generated from ops/aten.yaml and the hand-written operators of this directory.
//
//     ACLNN(aclnnAdd)(self, other, alpha, out);
//
// Cost: one handle a tensor (from the library's pool), no malloc; symbols are looked up at the first call.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include <concepts>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "aclnn/api.h"

namespace npu {

aclDataType acl_dtype(at::ScalarType type);

namespace detail {

aclTensor* make_tensor(const at::Tensor& tensor, at::Tensor& keep);
aclScalar* make_scalar(const at::Scalar& scalar);
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
  explicit Arg(const at::Scalar& scalar) { handle_ = make_scalar(scalar); }
  explicit Arg(const std::optional<at::Scalar>& scalar) {
    if (scalar) handle_ = make_scalar(*scalar);
  }
  explicit Arg(std::nullptr_t) {}
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

template <class Prototype>
class AclnnFunction;

// The last two parameters of phase one are the workspace's size and the executor.
template <class... P>
class AclnnFunction<aclnnStatus(P...)> : public detail::AclnnSymbols {
 public:
  using AclnnSymbols::AclnnSymbols;

  template <class... A>
  void operator()(const A&... args) const {
    static_assert(sizeof...(A) + 2 == sizeof...(P), "wrong number of arguments for this aclnn operator");
    if (!phase_one_ || !phase_two_) missing();
    call(std::index_sequence_for<A...>{}, args...);
  }

 private:
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
#define ACLNN(name)                                                               \
  ([]() -> const auto& {                                                          \
    static const ::npu::AclnnFunction<decltype(name##GetWorkspaceSize)> f(#name); \
    return f;                                                                     \
  }())
