// GlobalTensor: a typed stretch of device memory, which is this machine's. What it is not: owner of it. Copies check it against the
// device's allocations with ANYCEND_CHECK=kernel (copy.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ascendc/global_order.h"
#include "ascendc/shape.h"
#include "ascendc/types.h"

// The tiling: REGISTER_TILING_DEFAULT says its type in the kernel's body, or GET_TILING_DATA_WITH_STRUCT does.
#define REGISTER_TILING_DEFAULT(type) using AscendcTilingDefault = type
#define GET_TILING_DATA_WITH_STRUCT(type, name, from) \
  [[maybe_unused]] type name = ::AscendC::detail::read_tiling<type>(from)
// What the host's tiling chose, known when the kernel is compiled: a kernel that asks is compiled once for each key.
#ifdef ASCENDC_TILING_KEY
#define TILING_KEY_IS(key) ((key) == (ASCENDC_TILING_KEY))
#else
#define TILING_KEY_IS(key) (::AscendC::detail::no_tiling_key<decltype(key)>())
#endif
// What `bisheng --tiling-data` knows; the macro is its.
#define ASCENDC_TILING_DEFAULT ::AscendC::detail::NoTiling
#define ASCENDC_TILING ::AscendC::detail::TilingOf<AscendcTilingDefault, ASCENDC_TILING_DEFAULT>
#define GET_TILING_DATA(name, from)                                                                             \
  static_assert(                                                                                                \
      !std::is_same_v<ASCENDC_TILING, ::AscendC::detail::NoTiling>,                                             \
      "GET_TILING_DATA: the type of the tiling is missing: give bisheng --tiling-data=<op_host/..._tiling.h>, " \
      "write REGISTER_TILING_DEFAULT(<struct>) in the kernel, or take GET_TILING_DATA_WITH_STRUCT");            \
  [[maybe_unused]] ASCENDC_TILING name = ::AscendC::detail::read_tiling<ASCENDC_TILING>(from)

namespace AscendC::detail {
struct NoTiling {};
template <class Registered, class Given>
using TilingOf = std::conditional_t<std::is_same_v<Registered, NoTiling>, Given, Registered>;
}  // namespace AscendC::detail
using AscendcTilingDefault = ::AscendC::detail::NoTiling;  // where the kernel's body has no REGISTER_TILING_DEFAULT

namespace AscendC {

enum class CacheMode : uint8_t { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL = 1 };
enum class CacheRwMode : uint8_t { READ = 1, WRITE = 2, RW = 3 };

namespace detail {

inline void check_global(const void* p, size_t bytes, const char* what, Site at) {
  if (p == nullptr && bytes) fail(at, what, "the GlobalTensor has no memory: SetGlobalBuffer is missing");
  if (!core(at, what).hazards.on() || bytes == 0) return;
  char text[300] = "";
  if (softnpuAscendcOwned(p, bytes, text, sizeof text)) fail(at, what, text);
}

template <class T>
constexpr bool no_tiling_key() {
  static_assert(never<T>, "TILING_KEY_IS: bisheng --tiling-key=<number> says which key the kernel is compiled for");
  return false;
}

// What a tensor uses from its start or, where its offset is negative, from there to the memory that it was made of: all one allocation.
inline void check_global(const void* p, size_t bytes, const void* made_of, const char* what, Site at) {
  const auto first = reinterpret_cast<uintptr_t>(p), base = reinterpret_cast<uintptr_t>(made_of);
  if (__builtin_expect(first >= base || bytes == 0 || !core(at, what).hazards.on(), 1))
    return check_global(p, bytes, what, at);
  char text[300] = "";
  if (softnpuAscendcOwned(p, std::max<size_t>(bytes, base - first + 1), text, sizeof text))
    fail(at, what,
         format("the GlobalTensor's offset is negative, %llu bytes before what SetGlobalBuffer was given: ",
                static_cast<unsigned long long>(base - first)) +
             text);
}

// A struct that the host has put into global memory.
template <class T>
T read_tiling(const void* from, ASCENDC_AT) {
  static_assert(std::is_trivially_copyable_v<T>, "GET_TILING_DATA: the struct of the tiling is copied byte by byte");
  check_global(from, sizeof(T), "GET_TILING_DATA", at);
  T tiling;
  memcpy(static_cast<void*>(&tiling), from, sizeof(T));
  return tiling;
}

}  // namespace detail

template <class T>
class GlobalTensor {
 public:
  using PrimType = T;

  void SetGlobalBuffer(T* buffer, uint64_t elements) {
    static_assert(
        detail::per_byte<T> == 1,
        "GlobalTensor takes no int4b_t: pairs of such numbers are copied as int8_t, and ReinterpretCast<int4b_t> "
        "makes numbers of the tensor");
    p_ = base_ = buffer, size_ = elements;
  }
  void SetGlobalBuffer(T* buffer) { SetGlobalBuffer(buffer, 0); }
  const T* GetPhyAddr() const { return p_; }
  T* GetPhyAddr(uint64_t offset) const { return p_ + offset; }
  // By an instruction that uses `bytes` from element `index` on.
  void check(uint64_t index, size_t bytes, const char* what, detail::Site at) const {
    detail::check_global(p_ ? p_ + index : nullptr, bytes, base_, what, at);
  }
  uint64_t GetSize() const { return size_; }

  T GetValue(uint64_t index, ASCENDC_AT) const {
    return detail::scalar_read(element(index, "GetValue", at), "GetValue", at);
  }
  void SetValue(uint64_t index, detail::Plain<T> value, ASCENDC_AT) {
    detail::scalar_write(element(index, "SetValue", at), value, "SetValue", at);
  }
  T& operator()(uint64_t index, ASCENDC_AT) const {
    T* const p = element(index, "GlobalTensor()", at);
    detail::read_at(detail::core(at, "GlobalTensor()"), p, "GlobalTensor()", at);
    return *p;
  }
  GlobalTensor operator[](uint64_t offset) const {
    GlobalTensor t = *this;
    if (t.p_) t.p_ += offset;  // without memory it stays so, and what uses it says that
    t.size_ = offset < size_ ? size_ - offset : 0;
    return t;
  }
  template <class U>
  GlobalTensor<U> ReinterpretCast() const {
    GlobalTensor<U> t;
    t.SetGlobalBuffer((U*)p_, size_ * sizeof(T) / sizeof(U));
    t.base_ = (U*)base_;
    return t;
  }
  // One memory, one cache: there is nothing to hint at.
  template <CacheRwMode rw = CacheRwMode::RW>
  void SetL2CacheHint(CacheMode) {}
  void SetShapeInfo(const ShapeInfo& shape) { shape_ = shape; }
  ShapeInfo GetShapeInfo() const { return shape_; }

 private:
  template <class U>
  friend class GlobalTensor;

  T* element(uint64_t index, const char* what, detail::Site at) const {
    check(index, sizeof(T), what, at);
    return p_ + index;
  }
  T *p_ = nullptr, *base_ = nullptr;
  uint64_t size_ = 0;
  ShapeInfo shape_;
};

}  // namespace AscendC
