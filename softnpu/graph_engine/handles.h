// Handles of libnnopbase.so around one aclnn call: Passed<P> turns what a row passes into the parameter type P and destroys it
// afterwards. Who includes it: call.h.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "acl/api.h"
#include "softnpu/graph_engine/lane.h"

namespace softnpu::graph {

// What a row passes for a parameter that it leaves out.
struct None {};
inline constexpr None none;

aclTensor* make_tensor(Lane& lane, const Value& value);
aclTensorList* make_tensors(Lane& lane, const std::vector<Value>& values);
[[noreturn]] void no_handle(const char* what);
[[noreturn]] void no_room(int64_t number);  // in the parameter's type

template <typename P>
class Passed {
 public:
  template <typename A>
  explicit Passed(std::tuple<Lane&, const A&> given) {
    const A& argument = std::get<1>(given);
    if constexpr (std::is_same_v<A, std::string>)
      text_ = argument, value_ = static_cast<P>(text_.data());
    else
      value_ = static_cast<P>(argument);
    if constexpr (std::is_same_v<A, int64_t> && std::is_integral_v<P> && !std::is_same_v<P, bool>)
      if (!std::in_range<P>(argument)) no_room(argument);
  }
  P get() { return value_; }

 private:
  std::string text_;
  P value_{};
};

// Strings are char* at the border.
template <>
class Passed<char*> {
 public:
  template <typename A>
  explicit Passed(std::tuple<Lane&, const A&> given) {
    if constexpr (!std::is_same_v<A, None>) text_ = std::get<1>(given);
  }
  char* get() { return text_.data(); }

 private:
  std::string text_;
};
template <>
class Passed<const char*> : public Passed<char*> {
 public:
  using Passed<char*>::Passed;
};

template <>
class Passed<const aclTensor*> {
 public:
  explicit Passed(std::tuple<Lane&, const None&>) {}
  explicit Passed(std::tuple<Lane&, const Value&> given) {
    if (std::get<1>(given)) handle_ = make_tensor(std::get<0>(given), std::get<1>(given));
  }
  Passed(const Passed&) = delete;
  Passed& operator=(const Passed&) = delete;
  ~Passed() {
    if (handle_) aclDestroyTensor(handle_);
  }
  aclTensor* get() const { return handle_; }

 private:
  aclTensor* handle_ = nullptr;
};
template <>
class Passed<aclTensor*> : public Passed<const aclTensor*> {
 public:
  using Passed<const aclTensor*>::Passed;
};

template <>
class Passed<const aclTensorList*> {
 public:
  explicit Passed(std::tuple<Lane&, const None&>) {}
  explicit Passed(std::tuple<Lane&, const std::vector<Value>&> given)
      : handle_(make_tensors(std::get<0>(given), std::get<1>(given))) {}
  Passed(const Passed&) = delete;
  Passed& operator=(const Passed&) = delete;
  ~Passed() {
    if (handle_) aclDestroyTensorList(handle_);  // with its members
  }
  aclTensorList* get() const { return handle_; }

 private:
  aclTensorList* handle_ = nullptr;
};
template <>
class Passed<aclTensorList*> : public Passed<const aclTensorList*> {
 public:
  using Passed<const aclTensorList*>::Passed;
};

template <>
class Passed<const aclScalar*> {
 public:
  explicit Passed(std::tuple<Lane&, const None&>) {}
  explicit Passed(std::tuple<Lane&, const Number&> given) {
    const Number& number = std::get<1>(given);
    number.whole ? make(number.integer, ACL_INT64) : make(number.real, ACL_DOUBLE);
  }
  template <typename A>
  explicit Passed(std::tuple<Lane&, const A&> given) {
    static_assert(std::is_arithmetic_v<A>, "a scalar is a number");
    if constexpr (std::is_floating_point_v<A>)
      make(static_cast<double>(std::get<1>(given)), ACL_DOUBLE);
    else if constexpr (std::is_same_v<A, bool>)
      make(std::get<1>(given), ACL_BOOL);
    else
      make(static_cast<int64_t>(std::get<1>(given)), ACL_INT64);
  }
  Passed(const Passed&) = delete;
  Passed& operator=(const Passed&) = delete;
  ~Passed() {
    if (handle_) aclDestroyScalar(handle_);
  }
  aclScalar* get() const { return handle_; }

 private:
  template <typename T>
  void make(T number, aclDataType type) {
    handle_ = aclCreateScalar(&number, type);
    if (!handle_) no_handle("aclCreateScalar");
  }
  aclScalar* handle_ = nullptr;
};

template <>
class Passed<const aclIntArray*> {
 public:
  explicit Passed(std::tuple<Lane&, const None&>) {}
  explicit Passed(std::tuple<Lane&, const Dims&> given)
      : handle_(aclCreateIntArray(std::get<1>(given).data(), std::get<1>(given).size())) {
    if (!handle_) no_handle("aclCreateIntArray");
  }
  explicit Passed(std::tuple<Lane&, const std::optional<Dims>&> given) {
    const std::optional<Dims>& numbers = std::get<1>(given);
    if (numbers && !(handle_ = aclCreateIntArray(numbers->data(), numbers->size()))) no_handle("aclCreateIntArray");
  }
  Passed(const Passed&) = delete;
  Passed& operator=(const Passed&) = delete;
  ~Passed() {
    if (handle_) aclDestroyIntArray(handle_);
  }
  aclIntArray* get() const { return handle_; }

 private:
  aclIntArray* handle_ = nullptr;
};

template <>
class Passed<const aclBoolArray*> {
 public:
  explicit Passed(std::tuple<Lane&, const std::vector<bool>&> given) {
    const std::vector<bool>& flags = std::get<1>(given);
    const auto copy = std::make_unique<bool[]>(flags.size());
    std::copy(flags.begin(), flags.end(), copy.get());
    if (!(handle_ = aclCreateBoolArray(copy.get(), flags.size()))) no_handle("aclCreateBoolArray");
  }
  Passed(const Passed&) = delete;
  Passed& operator=(const Passed&) = delete;
  ~Passed() { aclDestroyBoolArray(handle_); }
  aclBoolArray* get() const { return handle_; }

 private:
  aclBoolArray* handle_ = nullptr;
};

}  // namespace softnpu::graph
