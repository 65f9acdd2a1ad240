// EXEC_NPU_CMD_EXT(aclnnAdd, self, other, alpha, out): one aclnn function, both phases, on the current stream of the tensors' device.
// Arguments are ATen's values in the order of the function's parameters; each becomes the handle or number that its type stands for:
//
//   at::Tensor, optional of it            aclTensor*, null where it is undefined     at::ScalarType, aclDataType   aclDataType
//   at::Scalar, optional of it            aclScalar*                                 bool, int64_t, double, float  themselves
//   optional numbers                      aclScalar*
//   lists of whole numbers, optional too  aclIntArray*                               strings                       const char*
//   lists of double or float              aclFloatArray*                             at::TensorList                aclTensorList*
//   std::array<bool, N>, lists of bool    aclBoolArray*                              lists of at::Scalar           aclScalarList*
//   pointers, char* among them            themselves
//
// The function is looked up by name once: packages of custom operators first (docs/extensions.md has the order). Where its header is
// included before the call (<aclnn/api.h>, a package's own), the compiler checks how many values there are and that each is a tensor, a
// scalar, a list or a number as declared. A number must have the parameter's own type, as in `static_cast<float>(eps)`; nothing checks that.
//
// NotImplementedError names a function that no library has. c10::Error: a CPU tensor (pass its number as at::Scalar), a lazy conjugation or
// negation (resolve_conj(), resolve_neg()), two devices. What CANN refuses is RuntimeError or torch.AcceleratorError with its message.
// Thread-safe. Work that fails later is the error of the next call that waits for the stream.
#pragma once

#include <ATen/core/Tensor.h>
#include <acl/acl.h>
#include <c10/core/Scalar.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <optional>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "torch_npu/csrc/core/npu/NPUGuard.h"

namespace torch_npu::extension {

// One aclnn function, found when this is constructed. Not freed: static.
class TORCH_NPU_API AclnnFunction {
 public:
  explicit AclnnFunction(const char* name);
  // NotImplementedError that says where it was looked for.
  void* phase_one() const;
  // `status` is phase one's. Takes the workspace from the cache and calls phase two on the current stream.
  void launch(int status, uint64_t workspace_size, aclOpExecutor* executor) const;

 private:
  const void* symbols_;
};

namespace detail {

TORCH_NPU_API aclTensor* make(const at::Tensor& tensor);
TORCH_NPU_API aclScalar* make(const at::Scalar& scalar);
TORCH_NPU_API aclIntArray* make(at::IntArrayRef values);
TORCH_NPU_API aclFloatArray* make(at::ArrayRef<double> values);
TORCH_NPU_API aclBoolArray* make(at::ArrayRef<bool> values);
TORCH_NPU_API aclTensorList* make(at::TensorList tensors);
TORCH_NPU_API aclScalarList* make(at::ArrayRef<at::Scalar> scalars);
TORCH_NPU_API aclDataType dtype_of(at::ScalarType type);
TORCH_NPU_API void destroy(const aclTensor* handle) noexcept;
TORCH_NPU_API void destroy(const aclScalar* handle) noexcept;
TORCH_NPU_API void destroy(const aclIntArray* handle) noexcept;
TORCH_NPU_API void destroy(const aclFloatArray* handle) noexcept;
TORCH_NPU_API void destroy(const aclBoolArray* handle) noexcept;
TORCH_NPU_API void destroy(const aclTensorList* handle) noexcept;
TORCH_NPU_API void destroy(const aclScalarList* handle) noexcept;

// Owns a handle until phase two has returned: the executor keeps what it needs.
template <class T>
class Handle {
 public:
  explicit Handle(T* handle = nullptr) : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (handle_) destroy(handle_);
  }
  T* get() const { return handle_; }

 private:
  T* handle_;
};

template <class T>
struct Plain {
  T value;
  T get() const { return value; }
};
struct Text {
  std::string value;
  const char* get() const { return value.c_str(); }
};

inline Handle<aclTensor> convert(const at::Tensor& tensor) {
  return Handle<aclTensor>(tensor.defined() ? make(tensor) : nullptr);
}
inline Handle<aclTensor> convert(const std::optional<at::Tensor>& tensor) {
  return tensor ? convert(*tensor) : Handle<aclTensor>();
}
inline Handle<aclScalar> convert(const at::Scalar& scalar) { return Handle<aclScalar>(make(scalar)); }
inline Handle<aclScalar> convert(const std::optional<at::Scalar>& scalar) {
  return scalar ? convert(*scalar) : Handle<aclScalar>();
}
inline Handle<aclIntArray> convert(at::IntArrayRef values) { return Handle<aclIntArray>(make(values)); }
inline Handle<aclIntArray> convert(const at::OptionalIntArrayRef& values) {
  return values ? convert(*values) : Handle<aclIntArray>();
}
inline Handle<aclIntArray> convert(const std::optional<at::IntArrayRef>& values) {
  return values ? convert(*values) : Handle<aclIntArray>();
}
inline Handle<aclIntArray> convert(c10::SymIntArrayRef values) { return convert(C10_AS_INTARRAYREF_SLOW(values)); }
inline Handle<aclFloatArray> convert(at::ArrayRef<double> values) { return Handle<aclFloatArray>(make(values)); }
inline Handle<aclFloatArray> convert(at::ArrayRef<float> values) {
  return convert(at::ArrayRef<double>(std::vector<double>(values.begin(), values.end())));
}
inline Handle<aclBoolArray> convert(at::ArrayRef<bool> values) { return Handle<aclBoolArray>(make(values)); }
template <size_t N>
Handle<aclBoolArray> convert(const std::array<bool, N>& values) {
  return convert(at::ArrayRef<bool>(values.data(), N));
}
inline Handle<aclTensorList> convert(at::TensorList tensors) { return Handle<aclTensorList>(make(tensors)); }
inline Handle<aclScalarList> convert(at::ArrayRef<at::Scalar> scalars) { return Handle<aclScalarList>(make(scalars)); }
inline Plain<aclDataType> convert(at::ScalarType type) { return {dtype_of(type)}; }
inline Plain<aclDataType> convert(aclDataType type) { return {type}; }
inline Plain<int64_t> convert(const c10::SymInt& value) { return {value.guard_int(__FILE__, __LINE__)}; }
inline Text convert(std::string_view text) { return {std::string(text)}; }
// What is a pointer already goes as it is: a text that outlives the call, a handle that the caller owns.
template <class T>
  requires std::is_pointer_v<T>
Plain<T> convert(const T& pointer) {
  return {pointer};
}
template <size_t N>
Plain<const char*> convert(const char (&text)[N]) {
  return {text};
}
// std::vector, std::array, an array of C.
template <class T>
inline constexpr bool is_listed = std::is_same_v<T, int64_t> || std::is_same_v<T, c10::SymInt> ||
                                  std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, bool> ||
                                  std::is_same_v<T, at::Tensor> || std::is_same_v<T, at::Scalar>;
template <std::ranges::contiguous_range L>
  requires is_listed<std::ranges::range_value_t<const L>>
auto convert(const L& values) {
  return convert(
      at::ArrayRef<std::ranges::range_value_t<const L>>(std::ranges::data(values), std::ranges::size(values)));
}
// Other whole numbers are copied. Any other array of C would be one `true`, by way of its pointer.
template <std::ranges::contiguous_range L>
  requires(!is_listed<std::ranges::range_value_t<const L>> &&
           !std::is_same_v<std::ranges::range_value_t<const L>, char>)
auto convert(const L& values) {
  static_assert(std::is_integral_v<std::ranges::range_value_t<const L>>,
                "EXEC_NPU_CMD_EXT takes lists of whole numbers, double, float, bool, at::Tensor and at::Scalar");
  return convert(at::IntArrayRef(std::vector<int64_t>(std::ranges::begin(values), std::ranges::end(values))));
}
inline Handle<aclIntArray> convert(const at::OptionalSymIntArrayRef& values) {
  return values ? convert(*values) : Handle<aclIntArray>();
}
template <class T>
  requires(std::ranges::range<const T> && !std::is_convertible_v<const T&, std::string_view>)
auto convert(const std::optional<T>& value) {
  using Made = decltype(convert(*value));
  return value ? convert(*value) : Made();
}
template <class T>
  requires std::is_arithmetic_v<T>
Handle<aclScalar> convert(const std::optional<T>& value) {
  return value ? convert(at::Scalar(*value)) : Handle<aclScalar>();
}
template <class T>
  requires std::is_member_pointer_v<T>
void convert(T) = delete;
inline Handle<aclBoolArray> convert(const std::vector<bool>& values) {
  const c10::SmallVector<bool, 8> copied(values.begin(), values.end());
  return convert(at::ArrayRef<bool>(copied));
}
inline Plain<std::nullptr_t> convert(std::nullptr_t) { return {nullptr}; }
template <class T>
  requires std::is_arithmetic_v<T>
Plain<T> convert(T value) {
  return {value};
}

// Stands for what a value becomes, where it is checked against a declaration: a handle for its own kind, const or not, a number for any.
template <class T>
struct Given {
  template <class P>
    requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) && (std::is_arithmetic_v<P> || std::is_enum_v<P>)
  operator P() const;
  template <class P>
    requires std::is_null_pointer_v<T> ||
             (std::is_pointer_v<T> && (std::is_void_v<P> || std::is_void_v<std::remove_pointer_t<T>>)) ||
             std::is_same_v<std::remove_cv_t<std::remove_pointer_t<T>>, std::remove_cv_t<P>>
  operator P*() const;
};
// Stands for anything: of a function that is declared it tells how many parameters there are.
struct Whatever {
  template <class P>
  operator P() const;
};
template <class F, size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return std::is_invocable_v<F, std::enable_if_t<(I >= 0), Whatever>...>;
}
template <class F, size_t most = 96>
constexpr size_t count_of() {  // 0: nothing declares it
  if constexpr (takes<F>(std::make_index_sequence<most>()))
    return most;
  else if constexpr (most > 1)
    return count_of<F, most - 1>();
  else
    return 0;
}
template <class T>
using Made = std::remove_cvref_t<decltype(convert(std::declval<T>()).get())>;
// 0: the call is as declared, or nothing declares it; 1: another number of values; 2: a value of another kind.
template <class F, class... A>
constexpr int wrong(std::tuple<A...>*) {
  constexpr size_t count = count_of<F>();
  if constexpr (count == 0)
    return 0;
  else if constexpr (count != sizeof...(A) + 2)
    return 1;
  else
    return std::is_invocable_v<F, Given<Made<A>>..., uint64_t*, aclOpExecutor**> ? 0 : 2;
}

inline c10::DeviceIndex index_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone() ? tensor.device().index() : -1;
}
inline c10::DeviceIndex index_of(const std::optional<at::Tensor>& tensor) { return tensor ? index_of(*tensor) : -1; }
inline c10::DeviceIndex index_of(at::TensorList tensors) { return tensors.empty() ? -1 : index_of(tensors.front()); }
template <class T>
  requires(!std::is_convertible_v<const T&, at::TensorList>)
c10::DeviceIndex index_of(const T&) {
  return -1;
}
template <class... A>
std::optional<c10::DeviceIndex> device_of(const A&... arguments) {
  c10::DeviceIndex index = -1;
  static_cast<void>(((index = index_of(arguments), index >= 0) || ...));
  return index >= 0 ? std::optional(index) : std::nullopt;
}

}  // namespace detail

template <class... A>
void exec_npu_cmd(const AclnnFunction& function, const A&... arguments) {
  const c10_npu::OptionalNPUGuard guard(detail::device_of(arguments...));
  void* const found = function.phase_one();
  // Braces: converted from left to right, and what was made is destroyed if a later one throws.
  const std::tuple<decltype(detail::convert(arguments))...> converted{detail::convert(arguments)...};
  std::apply(
      [&](const auto&... each) {
        using PhaseOne = int (*)(decltype(each.get())..., uint64_t*, aclOpExecutor**);
        uint64_t workspace_size = 0;
        aclOpExecutor* executor = nullptr;
        const int status = reinterpret_cast<PhaseOne>(found)(each.get()..., &workspace_size, &executor);
        function.launch(status, workspace_size, executor);
      },
      converted);
}

}  // namespace torch_npu::extension

// npu_declared_: the function's declaration where there is one, else nothing that can be called.
#define EXEC_NPU_CMD_EXT(aclnn_function, ...)                                                                        \
  do {                                                                                                               \
    static const ::torch_npu::extension::AclnnFunction npu_function_(#aclnn_function);                               \
    [[maybe_unused]] const auto npu_declared_ =                                                                      \
        [](const auto&... each) -> decltype(aclnn_function##GetWorkspaceSize(each...)) { return {}; };               \
    constexpr int npu_wrong_ = ::torch_npu::extension::detail::wrong<decltype(npu_declared_)>(                       \
        static_cast<decltype(::std::forward_as_tuple(__VA_ARGS__))*>(nullptr));                                      \
    static_assert(npu_wrong_ != 1, #aclnn_function " is declared with another number of values (" #__VA_ARGS__ ")"); \
    static_assert(npu_wrong_ != 2, "of the values of " #aclnn_function " (" #__VA_ARGS__                             \
                                   ") one is of another kind than its declaration has in that place; a number in "   \
                                   "the place of an aclScalar* is at::Scalar(0.5), nothing is nullptr");             \
    ::torch_npu::extension::exec_npu_cmd(npu_function_, __VA_ARGS__);                                                \
  } while (false)
